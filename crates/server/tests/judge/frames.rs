//! Requests that are not single calls of JSON-RPC 1.1: other versions, batches, named parameters,
//! and what is no call.

use apus_testdata::Random;

use super::http::Request;

/// Bodies of requests.
const BODIES: &[&str] = &[
    // Versions and ids.
    r#"{"method":"getblockcount"}"#,
    r#"{"method":"getblockcount","id":null}"#,
    r#"{"method":"getblockcount","id":"a"}"#,
    r#"{"method":"getblockcount","id":[1,{"b":2}]}"#,
    r#"{"jsonrpc":null,"method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":"1.0","method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":"1.1","method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","id":null}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount"}"#,
    r#"{"jsonrpc":"2.1","method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":2,"method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":2.0,"method":"getblockcount","id":1}"#,
    r#"{"version":"1.1","method":"getblockcount","id":1,"other":[]}"#,
    // Methods.
    r#"{"id":1}"#,
    r#"{"jsonrpc":"2.0","id":1}"#,
    r#"{"method":null,"id":1}"#,
    r#"{"method":5,"id":1}"#,
    r#"{"method":"","id":1}"#,
    r#"{"method":"nothing","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"nothing","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"nothing"}"#,
    r#"{"method":"getblockcount","method":"getbestblockhash","id":1}"#,
    // Parameters.
    r#"{"method":"getblockhash","params":[0],"id":1}"#,
    r#"{"method":"getblockhash","params":{"height":0},"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockhash","params":{"height":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"height":0,"height":1},"id":1}"#,
    r#"{"method":"getblockhash","params":{"heigth":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":[0]},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":[0],"height":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":0},"id":1}"#,
    r#"{"method":"getblockhash","params":[0,"x"],"id":1,"id":2}"#,
    r#"{"method":"getblockhash","params":[1e9],"id":1}"#,
    r#"{"method":"getblockhash","params":[-1],"id":1}"#,
    r#"{"method":"getblockhash","params":[-0],"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockhash","params":[-1],"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockhash","params":[-1]}"#,
    r#"{"jsonrpc":"1.0","method":"getblockhash","params":[-1],"id":"z"}"#,
    r#"{"method":"getblockcount","params":null,"id":1}"#,
    r#"{"method":"getblockcount","params":1,"id":1}"#,
    r#"{"method":"getblockcount","params":"x","id":1}"#,
    r#"{"method":"getblockcount","params":{},"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","params":true,"id":1}"#,
    r#"{"method":"getblock","params":{"verbosity":0},"id":1}"#,
    r#"{"method":"getblock","params":{"verbose":0},"id":1}"#,
    // Batches.
    "[]",
    "[1]",
    "[[]]",
    "[{}]",
    "[null,\"x\"]",
    r#"[{"method":"getblockcount","id":1}]"#,
    r#"[{"method":"getblockcount","id":1},{"method":"nothing","id":2},3]"#,
    r#"[{"jsonrpc":"2.0","method":"getblockcount","id":1},{"method":"getblockcount"}]"#,
    r#"[{"jsonrpc":"2.0","method":"getblockcount"}]"#,
    r#"[{"jsonrpc":"2.0","method":"getblockcount"},{"jsonrpc":"2.0","method":"nothing"}]"#,
    r#"[{"jsonrpc":"2.0","method":"getblockcount"},1,{"method":"getblockcount","id":4}]"#,
    r#"[{"jsonrpc":"3.0","method":"getblockcount","id":1},{"params":[]},{"method":[],"id":3}]"#,
    r#"[{"method":"getblockhash","params":{"height":-5},"id":1},{"id": [1, "\u0041"] }]"#,
    // What is no call, or no JSON.
    "",
    " ",
    "{}",
    "null",
    "true",
    "1",
    "\"x\"",
    "{",
    "[",
    "[1,]",
    "{\"method\"}",
    "nul",
    "{} {}",
    "{}x",
    r#"{"method":"getblockcount","id":1} "#,
    r#"{"method":"getblockcount","id":01}"#,
    r#"{"method":"getblockcount","id":.5}"#,
    r#"{"method":"getblockcount","id":1.}"#,
    r#"{"method":"getblockcount","id":+1}"#,
    r#"{"method":"getblockcount","id":NaN}"#,
    "{'method':'getblockcount'}",
    "{\"method\":\"getblock\ncount\"}",
    r#"{"method":"getblockcount","id":"\x"}"#,
    r#"{"method":"getblockcount","id":"\ud83d"}"#,
    r#"{"method":"getblockcount","id":"\ude00\ud83d"}"#,
    r#"{"method":"getblockcount","id":1,"other":{"\ud83d\u0041":2}}"#,
    r#"{"method":"getblockcount","id":"\\ud83d\ud83D\uDe00"}"#,
    r#"{"method":"getblockcount","id":"A\n\/"}"#,
    // Echoes.
    r#"{"method":"echo","params":["A\n\/é\"\\", {"b":1,"a":[]}, null, false, -5],"id":1}"#,
    r#"{"method":"echo","params":{"arg1":1,"arg0":{"z":{},"y":""}},"id":1}"#,
    r#"{"method":"echo","params":["not\u0000seen"],"id":1}"#,
    r#"{"method":"logging","params":[],"id":1}"#,
    r#"{"method":"logging","params":[["net","rpc"],["net"]],"id":1}"#,
    r#"{"method":"logging","params":[["none"]],"id":1}"#,
    r#"{"method":"logging","params":[[1]],"id":1}"#,
    r#"{"method":"logging","params":[[],["libevent","","all"]],"id":1}"#,
    // The mempool, peers, and the process.
    "\"a\"",
    r#"{"method":1,"id":1}"#,
    r#"{"method":"getwalletinfo","id":1}"#,
    r#"{"method":"getrawmempool","params":{"mempool_sequence":true},"id":1}"#,
    r#"{"method":"getrawmempool","id":1}"#,
    r#"{"method":"getrawmempool","params":[true],"id":1}"#,
    r#"{"method":"getrawmempool","params":[true,true],"id":1}"#,
    r#"{"method":"getmempoolinfo","id":1}"#,
    r#"{"method":"getmempoolentry","params":["00"],"id":1}"#,
    r#"{"method":"getmempoolcluster","params":["zz"],"id":1}"#,
    r#"{"method":"gettxspendingprevout","params":[[]],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[6],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[0],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[6,"x"],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[4294967296],"id":1}"#,
    r#"{"method":"sendrawtransaction","params":["00"],"id":1}"#,
    r#"{"method":"testmempoolaccept","params":[[]],"id":1}"#,
    r#"{"method":"testmempoolaccept","params":[["00"]],"id":1}"#,
    r#"{"method":"submitpackage","params":[[]],"id":1}"#,
    r#"{"method":"getprioritisedtransactions","id":1}"#,
    r#"{"method":"getconnectioncount","id":1}"#,
    r#"{"method":"getpeerinfo","id":1}"#,
    r#"{"method":"getaddednodeinfo","id":1}"#,
    r#"{"method":"listbanned","id":1}"#,
    r#"{"method":"getmemoryinfo","params":["x"],"id":1}"#,
    r#"{"method":"logging","params":[["x"]],"id":1}"#,
    r#"{"method":"getnetworkhashps","id":1}"#,
    r#"{"method":"getnetworkhashps","params":[1,9],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[-1],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[0],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[1,9999],"id":1}"#,
    // More frames.
    r#"{"method":"getblockcount","params":[],"id":1}"#,
    r#"{"method":"getblockcount","params":null,"id":1.50}"#,
    r#"{"method":"getblockcount","params":{},"id":{"a":[1,"b"]}}"#,
    r#"{"jsonrpc":"1.0","method":"getblockcount","id":"a"}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","id":"a"}"#,
    r#"{"jsonrpc":"2.0","method":"none"}"#,
    r#"{"jsonrpc":"2.0","method":"none","id":1}"#,
    r#"{"id":1,"id":2,"method":"getblockcount","method":"none"}"#,
    r#"{"method":"getblockcount"} x"#,
    r#"{"method":"getblockcount","params":"a","id":1}"#,
    r#"{"method":"none","id":1}"#,
    r#"[{"method":"getblockcount","id":1},{"jsonrpc":"2.0","method":"none","id":2}]"#,
    r#"[{"method":"getblockcount","id":1},{"jsonrpc":"2.0","method":"getblockcount"},[]]"#,
    r#"[{"method":"getblockcount","id":1},null,{"method":1,"id":3}]"#,
    r#"{"method":"getblockhash","params":{"depth":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":0,"height":0},"id":1}"#,
    r#"{"method":"echo","params":{"arg0":1,"arg2":[2]},"id":1}"#,
    r#"{"method":"echo","params":{"args":[1,2],"arg3":{"a":null}},"id":1}"#,
    r#"{"method":"getblockhash","params":["0"],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[null,[]],"id":1}"#,
    r#"{"method":"help","params":["none"],"id":1}"#,
    r#"{"method":"dumptxoutset","params":{"path":"/no/x","rollback":1,"in_memory":true},"id":1}"#,
];

/// Requests for what is not there.
const PATHS: [(&str, &str); 17] = [
    ("GET", "/rest/"),
    ("GET", "/rest/nothing"),
    ("GET", "/rest/Block/x.json"),
    ("GET", "/rest/chaininfo"),
    ("GET", "/rest/chaininfo.json?x=1"),
    ("POST", "/rest/blockhashbyheight/0.json"),
    ("GET", "/rest/blockhashbyheight/0.hex?a=b&c"),
    ("GET", "/rest/blockhashbyheight/%30.json"),
    ("GET", "/rest/../rest/blockhashbyheight/0.json"),
    ("GET", "/rest/tx/%00.json"),
    ("PUT", "/"),
    ("DELETE", "/"),
    ("PUT", "/rest/blockhashbyheight/0.json"),
    ("DELETE", "/rest/blockhashbyheight/0.json"),
    ("FOO", "/rest/blockhashbyheight/0.json"),
    ("OPTIONS", "/rest/nothing"),
    ("PATCH", "/nothing"),
];

/// The requests.
pub fn frames() -> Vec<Request> {
    let mut requests: Vec<Request> = BODIES.iter().map(|body| Request::post(*body)).collect();
    for depth in [100, 300, 500, 508, 509, 510, 511, 512, 600, 20_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let value = open.repeat(depth) + "1" + &close.repeat(depth);
            let call = format!("{{\"method\":\"echo\",\"params\":[{value}],\"id\":1}}");
            requests.push(Request::post(call));
        }
        requests.push(Request::post("[".repeat(depth) + &"]".repeat(depth)));
    }
    requests.push(Request::post(&b"{\"method\":\"echo\",\"params\":[\"\xff\"],\"id\":1}"[..]));
    for authorization in [None, Some("Basic dTpx"), Some("Basic !"), Some("Bearer x"), Some("")] {
        requests.push(Request { authorization, ..Request::post(BODIES[0]) });
    }
    let path = |(verb, path): &(&'static str, &str)| Request {
        verb,
        path: path.to_string(),
        authorization: None,
        body: Vec::new(),
    };
    requests.extend(PATHS.iter().map(path));
    let authorization = Some("Basic dTpx");
    requests.push(Request { authorization, ..path(&("GET", "/rest/blockhashbyheight/0.json")) });
    requests.extend(random_batches());
    requests
}

/// Batches of calls of all versions, of notifications, and of what is no call.
fn random_batches() -> Vec<Request> {
    let mut random = Random(43);
    let mut element = || {
        let version = ["", r#""jsonrpc":"1.0","#, r#""version":"1.1","#, r#""jsonrpc":"2.0","#];
        let version = random.one_of(&[version[0], version[1], version[2], version[3], version[3]]);
        let id = random.one_of(&["", r#""id":null,"#, r#""id":7,"#, r#""id":"a","#, r#""id":[],"#]);
        let call = random.one_of(&[
            r#""method":"getblockcount""#,
            r#""method":"getblockhash","params":[0]"#,
            r#""method":"getblockhash","params":{"height":-1}"#,
            r#""method":"nothing""#,
            r#""method":7"#,
            r#""params":[]"#,
        ]);
        match random.below(12_u32) {
            0 => random.one_of(&["1", "null", "[]", "{}", "\"x\""]).to_string(),
            _ => format!("{{{version}{id}{call}}}"),
        }
    };
    let mut batch = |count| {
        let elements: Vec<String> = (0..count).map(|_| element()).collect();
        Request::post(format!("[{}]", elements.join(",")))
    };
    (0..300).map(|number| batch(number % 6)).collect()
}
