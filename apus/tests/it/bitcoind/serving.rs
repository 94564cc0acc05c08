//! bitcoind syncs from `apus serve`, and follows the chain through `apus sync --follow --listen`.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use super::daemon::{Daemon, program_in};
use crate::peers::world::world;
use crate::serving::client::Serving;
use crate::support::Place;
use crate::support::ports::free_port;
use crate::support::program::{program_on, signal};
use crate::support::waiting::wait_until;

/// bitcoind with an empty directory, connected to this peer alone.
fn connected_to(bitcoind: &Path, place: &Place, address: SocketAddr, v2: bool) -> Daemon {
    let daemon = Daemon::start(bitcoind, place, &[]);
    daemon.ask(&["addnode", &address.to_string(), "onetry", if v2 { "true" } else { "false" }]);
    daemon
}

#[test]
fn bitcoind_syncs_from_apus_by_both_transports() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let served = world().in_order();
    let muhash = served.muhash().0;
    let server = Serving::start(&served, &[]);
    for v2 in [false, true] {
        let place = world().place();
        let daemon = connected_to(&bitcoind, &place, server.address, v2);
        daemon.wait_for_tip(&world().tip());
        let peers = daemon.ask_json(&["getpeerinfo"]);
        let transport = if v2 { "v2" } else { "v1" };
        assert_eq!(peers[0]["transport_protocol_type"], transport, "{peers}");
        assert_eq!(daemon.ask(&["verifychain", "4", "0"]), "true");
        let info = daemon.ask_json(&["gettxoutsetinfo", "muhash"]);
        assert_eq!(info["muhash"], muhash.as_str());
        daemon.stop();
    }
}

#[test]
fn bitcoind_follows_a_reorganisation_through_apus() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let miner_place = world().in_order();
    let miner = Daemon::start(&bitcoind, &miner_place, &[]);
    let place = world().place();
    let port = free_port();
    let connect = format!("--connect={}", miner.address());
    let port_option = format!("--port={port}");
    let args = ["sync", "--follow", "--listen", &port_option, &connect, "--assumevalid=0"];
    let mut child =
        program_on(&place, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("it listens", || TcpStream::connect(address).is_ok());
    let end_place = world().place();
    let end = connected_to(&bitcoind, &end_place, address, true);
    end.wait_for_tip(&world().tip());
    miner.mine(3, '1');
    let best = |daemon: &Daemon| daemon.ask(&["getbestblockhash"]);
    wait_until("the new blocks come", || best(&end) == best(&miner));
    let fork = miner.ask(&["getblockhash", &(world().height() - 4).to_string()]);
    miner.ask(&["invalidateblock", &fork]);
    miner.mine(20, '2');
    wait_until("the reorganisation comes", || best(&end) == best(&miner));
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    end.stop();
    miner.stop();
}
