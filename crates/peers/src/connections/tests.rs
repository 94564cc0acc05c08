use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use apus_disk::Disk;
use apus_host::threads;
use apus_net::{PeerOptions, Proxies, Target};
use apus_node::options::Options;
use apus_progress::Progress;
use apus_testpeer::{Honest, ServedChain, Server};
use apus_wire::{Chain, Network, genesis_block};

use super::*;
use crate::{ADDRESSES_FILE, Peers};

/// Keeps what the user is told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn observe(&self, _: &Progress) {}

    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_string());
    }
}

/// Starts a SOCKS5 proxy that connects to `server`, whatever it is asked for.
fn proxies_to(server: SocketAddr) -> Proxies {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxies = Proxies::default();
    proxies.add(&listener.local_addr().unwrap().to_string()).unwrap();
    threads::spawn_free("proxy".to_string(), move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = forward(stream, server);
        }
    });
    proxies
}

fn forward(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    client.read_exact(&mut [0; 4])?;
    client.write_all(&[5, 0])?;
    let mut head = [0; 5];
    client.read_exact(&mut head)?;
    client.read_exact(&mut vec![0; usize::from(head[4]) + 2])?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let server = TcpStream::connect(server)?;
    for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        threads::spawn_free("forward".to_string(), move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    }
    Ok(())
}

/// An honest peer that has the genesis block alone.
fn honest_server(network: &Network, genesis: &[u8]) -> Server {
    let chain = ServedChain::of(vec![genesis.to_vec()]);
    let begin = move || -> Box<dyn apus_testpeer::Answers> { Box::new(Honest::new(chain.clone())) };
    Server::start(network.magic, false, begin).unwrap()
}

/// A feeler completes the handshake and hangs up, and the user is not told.
#[test]
fn a_feeler_shows_that_an_address_works() {
    let network = Network::new(Chain::Regtest);
    let genesis = genesis_block(&network);
    let server = honest_server(&network, &genesis);
    let place = tempfile::tempdir().unwrap();
    let options = Options::new(place.path().to_path_buf(), network.clone());
    let file = options.network_dir().join(ADDRESSES_FILE);
    std::fs::create_dir_all(options.network_dir()).unwrap();
    let book = format!("apus peers 2\n9.1.1.1 18444 409 {} 0 0 0 new 010909000000\n", unix_time());
    std::fs::write(&file, book).unwrap();
    // No slot.
    let peers = PeerOptions {
        maxconnections: 0,
        fixedseeds: false,
        proxies: proxies_to(server.address()),
        ..PeerOptions::new(0)
    };
    let peers = Peers::begin(&options, &peers, None, &Disk::new(), 0, &Arc::default()).unwrap();
    let tree = Tree::new(network);
    let mut chain = HeaderChain::fixed(&tree, tree.genesis());
    let told = Told::default();
    let mut connections = peers.connections();
    connections.dialer.dial_feeler(unix_time());
    assert!(connections.is_opening());
    while connections.is_opening() || !connections.links.is_empty() {
        connections.turn(&mut chain, &told);
    }
    assert_eq!(connections.reports(), []);
    drop(connections);
    drop(peers);
    let book = std::fs::read_to_string(&file).unwrap();
    let line = book.lines().find(|line| line.starts_with("9.1.1.1 18444 ")).unwrap();
    assert!(line.ends_with(" tried 010909000000"), "{line}");
    assert!(told.0.lock().unwrap().is_empty(), "{:?}", told.0);
}

/// A connection without a handshake makes room for another; what its thread reports later is
/// ignored.
#[test]
fn half_open_connections_make_room() {
    const PLACES: usize = 14;
    let network = Network::new(Chain::Regtest);
    let place = tempfile::tempdir().unwrap();
    let options = Options::new(place.path().to_path_buf(), network.clone());
    let peers = PeerOptions { maxconnections: 11 + PLACES, ..PeerOptions::new(0) };
    let peers = Peers::begin(&options, &peers, None, &Disk::new(), 0, &Arc::default()).unwrap();
    let tree = Tree::new(network);
    let mut chain = HeaderChain::fixed(&tree, tree.genesis());
    let told = Told::default();
    let mut connections = peers.connections();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut clients = Vec::new();
    for number in 0..=PLACES {
        clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (stream, address) = listener.accept().unwrap();
        assert_eq!(connections.dialer.is_full(), number == PLACES);
        connections.handle(Event::Accepted(stream, address), &mut chain, &told);
    }
    assert_eq!(connections.dialer.roles().inbound_count(), PLACES);
    // Of one part of the network, the youngest goes.
    assert_eq!(clients[PLACES - 1].read(&mut [0]).unwrap(), 0);
    let event = connections.events.recv().unwrap();
    let Event::Failed(gone, _) = event else { panic!("it was not open") };
    assert!(!connections.dialer.roles().0.contains_key(&gone));
    connections.handle(event, &mut chain, &told);
    assert!(!connections.is_opening());
    assert_eq!(connections.dialer.roles().inbound_count(), PLACES);
}

/// Connections do not survive a suspension: the other side has given them up.
#[test]
fn a_suspended_machine_closes_its_connections() {
    let network = Network::new(Chain::Regtest);
    let genesis = genesis_block(&network);
    let server = honest_server(&network, &genesis);
    let place = tempfile::tempdir().unwrap();
    let options = Options::new(place.path().to_path_buf(), network.clone());
    let connect = vec![Target::parse(&server.address().to_string(), 0).unwrap()];
    let peers = PeerOptions { connect, ..PeerOptions::new(0) };
    let peers = Peers::begin(&options, &peers, None, &Disk::new(), 0, &Arc::default()).unwrap();
    let tree = Tree::new(network);
    let mut chain = HeaderChain::fixed(&tree, tree.genesis());
    let told = Told::default();
    let mut connections = peers.connections();
    while connections.manager().ready() == 0 {
        connections.turn(&mut chain, &told);
    }
    let after = |seconds: u64| unix_time() + seconds as i64;
    connections.look_for_suspension(after(SUSPENDED_MIN.as_secs() / 2), &told);
    assert_eq!(connections.links.len(), 1, "a clock may be set a little");
    connections.look_for_suspension(after(3 * SUSPENDED_MIN.as_secs()), &told);
    assert!(connections.links.is_empty());
    let told = told.0.lock().unwrap();
    assert!(told.iter().any(|line| line.contains("suspended")), "{told:?}");
}
