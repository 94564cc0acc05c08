//! Sends a ping through the encrypted transport (BIP 324), between two ends of a socket.
//!
//! `cargo run -p apus-net --example handshake`

use std::error::Error;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::thread;

use apus_net::{Transport, initiate, respond};
use apus_wire::message::{Message, Nonce};
use apus_wire::{Chain, Network};

fn main() -> Result<(), Box<dyn Error>> {
    let magic = Network::new(Chain::Main).magic;
    let (mut ours, theirs) = UnixStream::pair()?;
    let peer = thread::spawn(move || {
        let mut to = theirs.try_clone().expect("a second handle");
        let any_size = &mut |_| Ok(());
        let (mut reader, _) = respond(magic, true, theirs, &mut to, any_size).expect("a handshake");
        let mut buffer = Vec::new();
        let (command, payload) = reader.read(&mut buffer).expect("a message");
        match Message::decode(command, &buffer[payload]) {
            Ok(Message::Ping(Some(Nonce(nonce)))) => nonce,
            other => panic!("not a ping: {other:?}"),
        }
    });
    let from = ours.try_clone()?;
    let (_, mut writer) = initiate(Transport::V2, magic, from, &mut ours)?;
    let mut bytes = Vec::new();
    writer.encode(&Nonce(7).ping(), &mut bytes);
    ours.write_all(&bytes)?;
    println!("{} bytes carried the nonce {}", bytes.len(), peer.join().expect("the peer"));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
