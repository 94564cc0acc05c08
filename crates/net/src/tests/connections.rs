//! Connections of each type: which peers may lack services, and connections to ourselves.

use std::sync::Arc;
use std::time::Duration;

use apus_chain::BlockId;
use apus_wire::message::{Command, Feature, Message, Services};

use super::manager::{Habit, OUR_NONCE, SERVICES, World, mine, ourselves, version};
use super::regtest;
use crate::{BLOCK_SPENT_COINS, ConnectionType, Outgoing, PeerError, Session, SessionFault};

/// As in Core, what a peer offers decides what it is asked for, and not whether it may stay.
#[test]
fn a_named_peer_may_lack_services() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 400, 1);
    let limited = Services::NETWORK_LIMITED;
    for (services, lowest_asked) in [
        (Services::default(), None),
        (Services::WITNESS, None),
        (Services::NETWORK, None),
        (limited.with(Services::WITNESS), Some(400 - 285)),
        (limited.with(SERVICES), Some(1)),
    ] {
        let mut world = World::new(0);
        world.connect_as(ConnectionType::Manual, Habit::Version(70_016, services), &chain);
        assert!(world.talk());
        assert!(world.dropped.is_empty(), "{services:?}: {:?}", world.dropped);
        assert_eq!(world.best_height(), 400, "{services:?}");
        let best = world.tree.best_header();
        let plan: Vec<BlockId> = world.tree.ancestors(best).take(400).collect();
        let plan: Arc<[BlockId]> = plan.into_iter().rev().collect();
        // One lane for each block, so that none holds up another.
        world.manager.schedule().want(Arc::clone(&plan), (0..400).map(|at| at..at + 1));
        assert!(world.talk());
        let lowest = world.blocks.iter().map(|id| world.tree.node(*id).height).min();
        assert_eq!(lowest, lowest_asked, "{services:?}");
    }
}

/// The two sides of a connection to ourselves have different nonces; the inbound side knows the one
/// with which the other side opened the connection (Core's `CheckIncomingNonce`).
#[test]
fn a_connection_from_ourselves_is_noticed() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    for (opening, nonce, is_noticed) in [
        (Habit::Silent, OUR_NONCE, true),
        (Habit::Silent, OUR_NONCE + 1, false),
        // As in Core, peers cannot learn from us which connections we have made.
        (Habit::Honest, OUR_NONCE, false),
    ] {
        let mut world = World::new(0);
        world.connect(opening.clone(), &chain);
        assert!(world.talk());
        let caller = world.connect_as(ConnectionType::Inbound, Habit::Silent, &chain);
        world.receive(caller, &version(70_016, SERVICES, nonce));
        let dropped = world.dropped.get(&caller);
        let expected = is_noticed.then_some(PeerError::Session(SessionFault::Ourselves));
        assert_eq!(dropped, expected.as_ref(), "{opening:?}, {nonce}");
    }
}

/// A slow peer comes to a ping after all that it has requested before.
#[test]
fn a_ping_waits_behind_large_answers() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let (mut session, _) =
        Session::new(true, ourselves(Vec::new()), Services::default(), Duration::ZERO);
    let mut out = Vec::new();
    let version = version(70_016, SERVICES, 1);
    for message in [Message::decode(version.command, &version.payload).unwrap(), Message::Verack] {
        session.handle(&message, Duration::ZERO, &mut out).unwrap();
    }
    session.tick(minutes(3), 5, &mut out).unwrap();
    for minute in 3..60 {
        session.has_read(minutes(minute));
        assert_eq!(session.check_time(minutes(minute)), Ok(()), "minute {minute}");
    }
    // It has read all.
    session.heard(minutes(79));
    assert_eq!(session.check_time(minutes(79)), Ok(()));
    session.heard(minutes(80));
    assert_eq!(session.check_time(minutes(80)), Err(SessionFault::PingTimeout));
}

/// Returns our session with a peer of this version, after its greeting, and the names of what we
/// answered.
fn greeted(number: i32) -> (Session, Vec<Command>) {
    let ours = vec![("somefeature", vec![1, 2])];
    let (mut session, _) = Session::new(true, ourselves(ours), Services::default(), Duration::ZERO);
    let mut out = Vec::new();
    let version = version(number, SERVICES, 1);
    let message = Message::decode(version.command, &version.payload).unwrap();
    session.handle(&message, Duration::ZERO, &mut out).unwrap();
    (session, out.into_iter().map(|message| message.command).collect())
}

/// As BIP434 says, a feature is sent between `version` and `verack`, to those that know what it is.
#[test]
fn features_are_exchanged_before_the_end_of_the_handshake() {
    let (_, sent) = greeted(70_016);
    assert!(!sent.contains(&Command::FEATURE), "{sent:?}");
    let (mut session, sent) = greeted(70_017);
    assert_eq!(sent[3..], [Command::FEATURE, Command::VERACK]);
    let mut send = |id: &str, data: &[u8]| {
        let message = Outgoing::new(&Feature { id: id.as_bytes(), data });
        let message = Message::decode(message.command, &message.payload).unwrap();
        session.handle(&message, Duration::ZERO, &mut Vec::new()).map(|_| ())
    };
    for (id, data) in [("unknown", &[7; 512][..]), (BLOCK_SPENT_COINS, &[0]), ("BIP1", &[])] {
        assert_eq!(send(id, data), Ok(()));
    }
    assert_eq!(send(BLOCK_SPENT_COINS, &[1]), Ok(()), "the first counts");
    let them = session.them().unwrap();
    assert_eq!(them.features, [(BLOCK_SPENT_COINS, vec![0])], "no memory for unknown ones");
    assert_eq!(them.feature(BLOCK_SPENT_COINS), Some(&[0][..]));
    assert_eq!(them.feature("unknown"), None);
}

/// As Core does.
#[test]
fn an_invalid_feature_ends_the_connection() {
    let name = [&[81][..], &[b'x'; 81], &[0]].concat();
    let data = [&[4][..], b"name", &[0xfd, 1, 2], &[0; 513]].concat();
    let fine: &[u8] = b"\x04name\0";
    for (number, payload, expected) in [
        (70_017, fine, Ok(())),
        (70_016, fine, Err(SessionFault::Feature)),
        (70_017, b"\x03nam\0", Err(SessionFault::Feature)),
        (70_017, b"\x04name", Err(SessionFault::Feature)),
        (70_017, b"\x04name\0\0", Err(SessionFault::Feature)),
        (70_017, b"\xfd\x04\0name\0", Err(SessionFault::Feature)),
        (70_017, &name, Err(SessionFault::Feature)),
        (70_017, &data, Err(SessionFault::Feature)),
    ] {
        let (mut session, _) = greeted(number);
        let message = Message::decode(Command::FEATURE, payload).unwrap();
        let handled = session.handle(&message, Duration::ZERO, &mut Vec::new()).map(|_| ());
        assert_eq!(handled, expected, "{number}: {payload:02x?}");
    }
}
