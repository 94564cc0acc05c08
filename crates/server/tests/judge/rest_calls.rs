//! Requests of REST with right and wrong paths.

use super::calls::NONE;
use super::worlds::{World, hash_of};

/// A path after `/rest/`, and a body.
pub type Rest = (String, Vec<u8>);

const FORMATS: [&str; 6] = [".bin", ".hex", ".json", ".", ".txt", ""];

/// Every request, of which `sample` heights name blocks.
pub fn requests(world: &World, sample: &[usize]) -> Vec<Rest> {
    let mut paths = Vec::new();
    for format in FORMATS {
        let tip = world.tip();
        for start in [
            "chaininfo".to_string(),
            "deploymentinfo".to_string(),
            format!("deploymentinfo/{tip}"),
            format!("deploymentinfo/{NONE}"),
            "deploymentinfo/abc".to_string(),
            "blockhashbyheight/".to_string(),
            "blockhashbyheight/-1".to_string(),
            "blockhashbyheight/+1".to_string(),
            "blockhashbyheight/1x".to_string(),
            "blockhashbyheight/99999999999".to_string(),
            "blockhashbyheight/9999999".to_string(),
            "headers/".to_string(),
            "headers/1/2/3".to_string(),
            format!("headers/{NONE}"),
            format!("headers/0/{tip}"),
            format!("headers/2001/{tip}"),
            format!("headers/x/{tip}"),
            "blockfilter/basic".to_string(),
            format!("blockfilter/basic/{tip}"),
            format!("blockfilter/other/{tip}"),
            "blockfilter/basic/abc".to_string(),
            format!("blockfilterheaders/basic/{tip}"),
            format!("blockfilterheaders/basic/5/{tip}"),
            format!("blockfilterheaders/basic/0/{tip}"),
            format!("blockfilterheaders/other/5/{tip}"),
            format!("blockfilter/basic/{NONE}"),
            format!("blockfilterheaders/basic/5/{NONE}"),
            "blockfilterheaders/basic".to_string(),
            format!("tx/{NONE}"),
            "tx/abc".to_string(),
            "mempool/other".to_string(),
            "mempool/info".to_string(),
            "mempool/contents".to_string(),
            "mempool/".to_string(),
            format!("block/{NONE}"),
            "block/abc".to_string(),
            "block/".to_string(),
            format!("block/notxdetails/{NONE}"),
            "block/notxdetails/abc".to_string(),
            format!("spenttxouts/{NONE}"),
            "spenttxouts/abc".to_string(),
            format!("spenttxouts/{NONE}/1"),
            format!("blockpart/{NONE}"),
        ] {
            paths.push(format!("{start}{format}"));
        }
    }
    for query in [
        "verbose=true",
        "verbose=false",
        "verbose=",
        "verbose=1",
        "mempool_sequence=true",
        "mempool_sequence=x",
        "verbose=false&mempool_sequence=true",
        "verbose=false&verbose=true",
        "verbos%65=%66alse",
        "verbose=%",
        "verbose=%zz&verbose=true",
        "other",
    ] {
        paths.push(format!("mempool/contents.json?{query}"));
        paths.push(format!("mempool/info.json?{query}"));
    }
    paths.extend(of_blocks(world, sample));
    let requests = paths.into_iter().map(|path| (path, Vec::new()));
    requests.chain(utxos(world, sample)).collect()
}

/// Requests for blocks.
fn of_blocks(world: &World, sample: &[usize]) -> Vec<String> {
    let mut paths = Vec::new();
    let others = world.others.iter().map(|header| hash_of(header));
    let sampled = sample.iter().map(|height| world.hash(*height));
    for hash in sampled.clone().chain(others) {
        for format in FORMATS {
            for start in [
                "block",
                "block/notxdetails",
                "spenttxouts",
                "headers/3",
                "headers",
                "blockfilter/basic",
                "blockfilterheaders/basic",
                "blockfilterheaders/basic/3",
            ] {
                paths.push(format!("{start}/{hash}{format}"));
            }
            for query in [
                "",
                "?offset=0&size=80",
                "?offset=79&size=1",
                "?offset=0&size=0",
                "?offset=1",
                "?size=1",
                "?offset=-1&size=1",
                "?offset=0&size=99999999",
                "?offset=18446744073709551615&size=1",
                "?size=4&offset=4&x=1",
            ] {
                paths.push(format!("blockpart/{hash}{format}{query}"));
            }
            paths.push(format!("headers/{hash}{format}?count=2"));
            paths.push(format!("headers/{hash}{format}?count=0"));
            paths.push(format!("headers/{hash}{format}?%63ount=%31"));
            paths.push(format!("headers/{hash}{format}?count=%30%3a%c3%a9"));
            paths.push(format!("headers/{hash}{format}?count="));
            paths.push(format!("blockfilterheaders/basic/{hash}{format}?count=2000"));
        }
    }
    for height in sample {
        for format in FORMATS {
            paths.push(format!("blockhashbyheight/{height}{format}"));
            let txids = world.view(*height).txids();
            paths.extend(txids.iter().take(5).map(|txid| format!("tx/{txid}{format}")));
        }
    }
    paths
}

/// Requests for unspent outputs.
fn utxos(world: &World, sample: &[usize]) -> Vec<Rest> {
    let mut requests = Vec::new();
    let last = world.view(*sample.last().unwrap());
    let mut outpoints = Vec::new();
    for (tx, txid) in last.txs().zip(last.txids()).take(9) {
        let vouts = 0..tx.output_count() as u32;
        outpoints.extend(vouts.map(|vout| (txid, vout)));
    }
    let text = |(txid, vout): &(apus_hash::Hash, u32)| format!("{txid}-{vout}");
    for count in [0, 1, 3, 9, 15, 16] {
        let some = &outpoints[..outpoints.len().min(count)];
        let joined = some.iter().map(text).collect::<Vec<_>>().join("/");
        let mut body = vec![0, some.len() as u8];
        for (txid, vout) in some {
            body.extend_from_slice(&txid.0);
            body.extend_from_slice(&vout.to_le_bytes());
        }
        for format in FORMATS {
            requests.push((format!("getutxos/{joined}{format}"), vec![]));
            requests.push((format!("getutxos/checkmempool/{joined}{format}"), vec![]));
            requests.push((format!("getutxos{format}"), body.clone()));
            requests.push((format!("getutxos{format}"), apus_hash::hex(&body).into_bytes()));
            requests.push((format!("getutxos/{joined}{format}"), body.clone()));
            requests.push((format!("getutxos{format}"), body[..body.len() - 1].to_vec()));
        }
    }
    for wrong in
        ["x", "abc-1", &format!("{NONE}-x"), &format!("{NONE}-1-2"), &format!("{NONE}--1"), "/"]
    {
        requests.push((format!("getutxos/{wrong}.json"), vec![]));
        requests.push((format!("getutxos/checkmempool/{wrong}.json"), vec![]));
    }
    requests
}
