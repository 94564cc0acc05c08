//! Requests to the server, of a directory that is not open.

use std::sync::OnceLock;

use apus_server::offline::{AUTHORIZATION, Offline};

/// The methods that are called: none that waits, and none whose answer changes with time.
const METHODS: &str = "me:echo,help,getblock,getblockhash,getmemoryinfo,getmempoolinfo,\
    getnetworkhashps,getrawmempool,gettxspendingprevout,estimatesmartfee,logging,\
    sendrawtransaction,testmempoolaccept";

fn server() -> &'static Offline {
    static SERVER: OnceLock<Offline> = OnceLock::new();
    SERVER.get_or_init(|| {
        Offline::new(|config| {
            config.whitelist.add(METHODS);
            config.rest = true;
        })
    })
}

/// The first line is method and path, the lines up to an empty one are headers, the rest is the
/// body. A path that begins with `!` has the right password.
pub fn run(data: &[u8]) {
    let end = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let head = String::from_utf8_lossy(&data[..end]);
    let body = data.get(end + 2..).unwrap_or_default();
    let mut lines = head.split('\n');
    let Some((method, path)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let mut headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    // A wrong password is answered late.
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    let (path, named) = path.strip_prefix('!').map_or((path, false), |path| (path, true));
    if named {
        headers.push(("authorization", AUTHORIZATION));
    }
    let Some((status, reply)) = server().ask((method, path), &headers, body) else { return };
    assert!((200..=504).contains(&status), "{status}");
    let is_call = (method, path, named) == ("POST", "/", true);
    if !is_call {
        return;
    }
    if !reply.is_empty() && reply.first() != Some(&b'T') {
        serde_json::from_slice::<serde_json::Value>(&reply).expect("a reply is JSON");
    }
    if status == 200 && body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let batch = [b"[", body, b"]"].concat();
        let (status, replies) = server().ask((method, path), &headers, &batch).unwrap();
        let expected = [b"[", reply.strip_suffix(b"\n").unwrap(), b"]\n"].concat();
        assert_eq!((status, replies), (200, expected), "a batch of one is answered as the one");
    }
}
