//! Tests against the crate `bitcoin`: it reads what we write, and we read what it writes.

use apus_hash::Hash;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory as TheirItem};
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, Magic, ServiceFlags, address::AddrV2, address::AddrV2Message};
use proptest::prelude::*;

use super::*;
use crate::{BlockView, Header, OutPoint};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn encoded(payload: &impl Payload) -> Vec<u8> {
    let mut out = Vec::new();
    encode(payload, MAGIC, &mut out);
    assert_eq!(out.capacity(), out.len(), "the buffer grows once, to the exact size");
    out
}

fn theirs(message: NetworkMessage) -> Vec<u8> {
    serialize(&RawNetworkMessage::new(Magic::from_bytes(MAGIC), message))
}

fn read(bytes: &[u8]) -> NetworkMessage {
    deserialize::<RawNetworkMessage>(bytes).unwrap().into_payload()
}

/// Decodes a message from its bytes, envelope included.
fn decoded(bytes: &[u8]) -> Result<Message<'_>, MessageError> {
    let (head, payload) = bytes.split_first_chunk().unwrap();
    let envelope = Envelope::parse(head, MAGIC)?;
    assert_eq!(envelope.len, payload.len());
    Message::decode(envelope.check(payload)?, payload)
}

fn header(seed: u32) -> Header {
    let hash = |tag: u8| Hash([tag ^ seed as u8; 32]);
    Header {
        version: seed as i32,
        prev: hash(1),
        merkle_root: hash(2),
        time: seed,
        bits: 0x207f_ffff,
        nonce: !seed,
    }
}

#[test]
fn version_is_theirs() {
    let receiver = Address::new(&"[::ffff:1.2.3.4]:8333".parse().unwrap(), ServiceFlags::WITNESS);
    let sender = Address::new(&"[::]:0".parse().unwrap(), ServiceFlags::from(9));
    let message = VersionMessage {
        version: 70016,
        services: ServiceFlags::from(9),
        timestamp: 1_700_000_000,
        receiver: receiver.clone(),
        sender,
        nonce: 77,
        user_agent: "/Apus:0.1.0/".to_string(),
        start_height: 12,
        relay: false,
    };
    let bytes = theirs(NetworkMessage::Version(message));
    let Ok(Message::Version(version)) = decoded(&bytes) else { panic!() };
    assert_eq!(version.services, Services::NETWORK.with(Services::WITNESS));
    assert_eq!(version.receiver.to_vec(), serialize(&receiver));
    assert_eq!((version.nonce, version.start_height, version.relay), (77, 12, false));
    assert_eq!(encoded(&version), bytes);
}

/// As in Core, the fields after the receiver's address may be missing.
#[test]
fn version_of_old_peers() {
    let version = Version {
        version: 60_000,
        services: Services::NETWORK,
        time: 1,
        receiver: [0; 26],
        nonce: 5,
        user_agent: b"/x/",
        start_height: 3,
        relay: false,
    };
    let mut payload = Vec::new();
    version.put(&mut payload);
    let ends = [(46, (1, -1, true)), (80, (5, -1, true)), (84, (5, -1, true)), (88, (5, 3, true))];
    for (end, fields) in ends {
        let Ok(Message::Version(read)) = Message::decode(Command::VERSION, &payload[..end]) else {
            panic!("{end}")
        };
        assert_eq!((read.nonce, read.start_height, read.relay), fields, "{end}");
    }
    for end in [0, 45, 47, 79, 81, 85] {
        assert!(Message::decode(Command::VERSION, &payload[..end]).is_err(), "{end}");
    }
}

#[test]
fn headers_are_theirs() {
    for count in [0, 1, 2000] {
        let headers: Vec<Header> = (0..count).map(header).collect();
        let bytes = encoded(&Headers(&headers));
        let NetworkMessage::Headers(read) = read(&bytes) else { panic!() };
        assert_eq!(read.len(), headers.len());
        assert!(read.iter().zip(&headers).all(|(a, b)| serialize(a) == b.to_bytes()));
        assert_eq!(theirs(NetworkMessage::Headers(read)), bytes);
        let Ok(Message::Headers(list)) = decoded(&bytes) else { panic!() };
        assert!(list.iter().eq(headers));
    }
    let too_many: Vec<Header> = (0..2001).map(header).collect();
    let error = decoded(&encoded(&Headers(&too_many))).unwrap_err();
    assert_eq!(error, MessageError::TooMany(Command::HEADERS, 2001));
}

/// Core ignores the number of transactions after each header, however it is encoded.
#[test]
fn headers_with_a_number_of_transactions() {
    let mut payload = vec![2];
    payload.extend_from_slice(&header(1).to_bytes());
    payload.extend_from_slice(&[0xfd, 0x00, 0x01]);
    payload.extend_from_slice(&header(2).to_bytes());
    payload.push(7);
    let Ok(Message::Headers(list)) = Message::decode(Command::HEADERS, &payload) else { panic!() };
    assert!(list.iter().eq([header(1), header(2)]));
    assert!(Message::decode(Command::HEADERS, &payload[..payload.len() - 1]).is_err());
}

#[test]
fn inventories_are_theirs() {
    let hash = |seed: u8| Hash([seed; 32]);
    let items = [
        InventoryItem { kind: InventoryKind::BLOCK, hash: hash(1) },
        InventoryItem { kind: InventoryKind::WITNESS_BLOCK, hash: hash(2) },
        InventoryItem { kind: InventoryKind::TX, hash: hash(3) },
        InventoryItem { kind: InventoryKind::WTX, hash: hash(4) },
    ];
    let of_core = vec![
        TheirItem::Block(bitcoin::BlockHash::from_byte_array([1; 32])),
        TheirItem::WitnessBlock(bitcoin::BlockHash::from_byte_array([2; 32])),
        TheirItem::Transaction(bitcoin::Txid::from_byte_array([3; 32])),
        TheirItem::WTx(bitcoin::Wtxid::from_byte_array([4; 32])),
    ];
    for (command, message) in [
        (Command::INV, NetworkMessage::Inv(of_core.clone())),
        (Command::GETDATA, NetworkMessage::GetData(of_core.clone())),
        (Command::NOTFOUND, NetworkMessage::NotFound(of_core.clone())),
    ] {
        let bytes = encoded(&Inventory(command, &items));
        assert_eq!(theirs(message), bytes);
        let Ok(Message::Inv(list) | Message::GetData(list) | Message::NotFound(list)) =
            decoded(&bytes)
        else {
            panic!()
        };
        assert!(list.iter().eq(items));
    }
    let many = vec![items[0]; INVENTORY_MAX + 1];
    assert!(decoded(&encoded(&Inventory(Command::INV, &many[1..]))).is_ok());
    let decode = |command| decoded(&encoded(&Inventory(command, &many))).map(|_| ());
    for command in [Command::INV, Command::GETDATA] {
        assert_eq!(decode(command), Err(MessageError::TooMany(command, INVENTORY_MAX + 1)));
    }
    assert_eq!(decode(Command::NOTFOUND), Ok(()));
}

#[test]
fn requests_for_headers_are_theirs() {
    let locator: Vec<Hash> = (0..LOCATOR_MAX as u8).map(|seed| Hash([seed; 32])).collect();
    let theirs_of = |count: usize| GetHeadersMessage {
        version: 70016,
        locator_hashes: (0..count as u8)
            .map(|seed| bitcoin::BlockHash::from_byte_array([seed; 32]))
            .collect(),
        stop_hash: bitcoin::BlockHash::from_byte_array([9; 32]),
    };
    for count in [0, 1, LOCATOR_MAX] {
        let request = GetHeaders {
            version: 70016,
            locator: Hashes::List(&locator[..count]),
            stop: Hash([9; 32]),
        };
        let bytes = encoded(&request);
        assert_eq!(theirs(NetworkMessage::GetHeaders(theirs_of(count))), bytes);
        let Ok(Message::GetHeaders(read)) = decoded(&bytes) else { panic!() };
        assert!(read.locator.iter().eq(locator[..count].iter().copied()));
        assert_eq!(read.stop, request.stop);
    }
    let too_many = theirs(NetworkMessage::GetHeaders(theirs_of(LOCATOR_MAX + 1)));
    assert!(decoded(&too_many).is_err());
}

#[test]
fn pings_are_theirs() {
    assert_eq!(encoded(&Nonce(7).ping()), theirs(NetworkMessage::Ping(7)));
    assert_eq!(encoded(&Nonce(8).pong()), theirs(NetworkMessage::Pong(8)));
    assert!(matches!(Message::decode(Command::PING, &[]), Ok(Message::Ping(None))));
    let number = Message::decode(Command::PONG, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(number, Ok(Message::Pong(Some(Nonce(1))))));
}

#[test]
fn messages_without_payload_are_theirs() {
    for (command, message) in [
        (Command::VERACK, NetworkMessage::Verack),
        (Command::GETADDR, NetworkMessage::GetAddr),
        (Command::SENDHEADERS, NetworkMessage::SendHeaders),
        (Command::SENDADDRV2, NetworkMessage::SendAddrV2),
        (Command::WTXIDRELAY, NetworkMessage::WtxidRelay),
    ] {
        assert_eq!(encoded(&Raw(command, &[])), theirs(message));
    }
}

#[test]
fn transactions_are_theirs() {
    let tx = |witness: Vec<Vec<u8>>| {
        let output = |sats, script| bitcoin::TxOut {
            value: bitcoin::Amount::from_sat(sats),
            script_pubkey: bitcoin::ScriptBuf::from_bytes(script),
        };
        bitcoin::Transaction {
            version: bitcoin::transaction::Version(2),
            lock_time: bitcoin::absolute::LockTime::from_consensus(500),
            input: vec![bitcoin::TxIn {
                previous_output: bitcoin::OutPoint {
                    txid: bitcoin::Txid::from_byte_array([3; 32]),
                    vout: 4,
                },
                script_sig: bitcoin::ScriptBuf::from_bytes(vec![0x51; 300]),
                sequence: bitcoin::Sequence(6),
                witness: bitcoin::Witness::from_slice(&witness),
            }],
            output: vec![output(7, vec![0x52; 5]), output(8, Vec::new())],
        }
    };
    for witness in [Vec::new(), vec![vec![1; 70], Vec::new(), vec![2; 600]]] {
        let items: Vec<&[u8]> = witness.iter().map(Vec::as_slice).collect();
        let inputs = [TxInput {
            outpoint: OutPoint { txid: Hash([3; 32]), vout: 4 },
            script: &[0x51; 300],
            sequence: 6,
            witness: &items,
        }];
        let outputs =
            [TxOutput { value: 7, script: &[0x52; 5] }, TxOutput { value: 8, script: &[] }];
        let ours = Transaction { version: 2, inputs: &inputs, outputs: &outputs, lock_time: 500 };
        let bytes = encoded(&ours);
        assert_eq!(theirs(NetworkMessage::Tx(tx(witness))), bytes);
        assert!(matches!(decoded(&bytes), Ok(Message::Tx(read)) if *read == bytes[24..]));
    }
}

#[test]
fn addresses_are_theirs() {
    let v4 = "1.2.3.4:8333".parse().unwrap();
    let v6 = "[2001:db8::1]:18333".parse().unwrap();
    let addresses = [v4, v6].map(|socket| (5, Address::new(&socket, ServiceFlags::from(9))));
    let bytes = theirs(NetworkMessage::Addr(addresses.to_vec()));
    let Ok(Message::Addresses(list)) = decoded(&bytes) else { panic!() };
    let sockets: Vec<_> = list.0.iter().map(|address| address.socket().unwrap()).collect();
    assert_eq!(sockets, [v4, v6]);
    assert!(list.0.iter().all(|address| (address.time, address.services.0) == (5, 9)));

    let of_networks = [
        AddrV2::Ipv4("1.2.3.4".parse().unwrap()),
        AddrV2::Ipv6("2001:db8::1".parse().unwrap()),
        AddrV2::TorV3([7; 32]),
        AddrV2::I2p([8; 32]),
        AddrV2::Cjdns("fc00::1".parse().unwrap()),
        AddrV2::Unknown(99, vec![1; 40]),
    ];
    let message =
        |addr| AddrV2Message { time: 6, services: ServiceFlags::from(u64::MAX), addr, port: 48333 };
    let bytes = theirs(NetworkMessage::AddrV2(of_networks.map(message).to_vec()));
    let Ok(Message::Addresses(list)) = decoded(&bytes) else { panic!() };
    let hosts: Vec<Host> = list.0.iter().map(|address| address.host).collect();
    let ip = |text: &str| Host::from(text.parse::<std::net::IpAddr>().unwrap());
    assert_eq!(hosts, [ip("1.2.3.4"), ip("2001:db8::1"), Host::TorV3([7; 32])]);
    assert!(list.0.iter().all(|address| (address.services.0, address.port) == (u64::MAX, 48333)));
}

/// Core ignores IPv4 and old onion services that are encoded as IPv6.
#[test]
fn addresses_in_the_wrong_network_are_ignored() {
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4];
    let onion = [0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    for address in [mapped, onion] {
        let entry = [&[0, 0, 0, 0, 1, 2, 16][..], &address, &[0, 1]].concat();
        let payload = [&[1][..], &entry].concat();
        let list = Message::decode(Command::ADDRV2, &payload).unwrap();
        assert!(matches!(list, Message::Addresses(list) if list.0.is_empty()));
    }
    let short = [1, 0, 0, 0, 0, 1, 1, 3, 9, 9, 9, 0, 1];
    assert!(Message::decode(Command::ADDRV2, &short).is_err());
    for command in [Command::ADDR, Command::ADDRV2] {
        assert!(Message::decode(command, &[0xfd, 0xe9, 0x03]).is_err(), "1001 addresses");
    }
}

/// Core drops a peer for too many items if all of them are there, and ignores a message that is cut
/// off; it checks the number of headers before it reads them.
#[test]
fn too_many_items_are_told_from_payloads_that_are_cut_off() {
    let count = [0xfd, 0xe9, 0x03];
    let v1 = [&count[..], &vec![0; 1001 * 30]].concat();
    let of_v2 = [0, 0, 0, 0, 0, 1, 4, 1, 2, 3, 4, 0, 1];
    let v2 = [&count[..], &of_v2.repeat(1001)].concat();
    let locator = [&[0, 0, 0, 0, 102][..], &vec![0; 103 * 32]].concat();
    let inventory = [&[0xfd, 0x51, 0xc3][..], &vec![0; 50_001 * 36]].concat();
    for (command, payload, items) in [
        (Command::ADDR, v1, 1001),
        (Command::ADDRV2, v2, 1001),
        (Command::GETHEADERS, locator, 102),
        (Command::INV, inventory.clone(), 50_001),
        (Command::GETDATA, inventory, 50_001),
    ] {
        let error = |payload: &[u8]| Message::decode(command, payload).unwrap_err();
        assert_eq!(error(&payload), MessageError::TooMany(command, items));
        let is_cut = error(&payload[..payload.len() - 1]);
        assert!(matches!(is_cut, MessageError::Payload(..)), "{command}: {is_cut}");
    }
    let headers = Message::decode(Command::HEADERS, &[0xfd, 0xd1, 0x07]).unwrap_err();
    assert_eq!(headers, MessageError::TooMany(Command::HEADERS, 2001));
}

#[test]
fn wrong_envelopes_are_refused() {
    let good = encoded(&Nonce(7).ping());
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let error = |bytes: Vec<u8>| {
        let head = bytes.first_chunk().unwrap();
        Envelope::parse(head, MAGIC).and_then(|envelope| envelope.check(&bytes[24..])).unwrap_err()
    };
    assert_eq!(error(changed(0, 0)), MessageError::Magic);
    assert_eq!(error(changed(4, 0x1f)), MessageError::Name);
    assert_eq!(error(changed(15, b'x')), MessageError::Name, "bytes after the padding");
    assert_eq!(error(changed(19, 1)), MessageError::TooLong(8 + (1 << 24)));
    assert_eq!(error(changed(20, !good[20])), MessageError::Checksum);
    assert_eq!(error(changed(30, 1)), MessageError::Checksum);
}

#[test]
fn coins_that_a_block_spends_are_asked_for_and_sent_by_their_long_names() {
    let block = Hash([7; 32]);
    let request = GetSpentCoins { block, cutoff: 0x0102_0304 };
    let mut contents = Vec::new();
    encode_contents(&request, &mut contents);
    assert_eq!(contents, [&b"\0getbspent\0\0\0"[..], &[7; 32], &[4, 3, 2, 1]].concat());
    let (command, start) = split_contents(&contents).unwrap();
    let decoded = Message::decode(command, &contents[start..]);
    assert!(matches!(decoded, Ok(Message::GetSpentCoins(again)) if again == request));
    assert!(Message::decode(command, &contents[start..start + 35]).is_err());
    let answer = [&[7; 32][..], &[1, 2, 3]].concat();
    let coins = &[1, 2, 3][..];
    assert!(matches!(
        Message::decode(Command::BSPENT, &answer),
        Ok(Message::SpentCoins(sent)) if sent == SpentCoins { block, coins }
    ));
    assert!(Message::decode(Command::BSPENT, &answer[..31]).is_err());
}

#[test]
fn names_of_one_byte_are_those_of_bip324() {
    for (id, name) in [(1, "addr"), (2, "block"), (13, "headers"), (28, "addrv2"), (37, "feature")]
    {
        assert_eq!(Command::from_short_id(id), Some(Command::new(name)));
        assert_eq!(Command::new(name).short_id(), Some(id));
    }
    assert_eq!(Command::VERSION.short_id(), None);
    for id in [0, 29, 36, 38, 255] {
        assert_eq!(Command::from_short_id(id), None);
    }
    for command in [Command::PING, Command::VERSION] {
        let mut contents = Vec::new();
        encode_contents(&Raw(command, &[1, 2, 3]), &mut contents);
        let (read, at) = split_contents(&contents).unwrap();
        assert_eq!((read, &contents[at..]), (command, &[1, 2, 3][..]));
    }
    for contents in [&[][..], &[0, b'x'], &[29, 1], &[0; 12]] {
        assert_eq!(split_contents(contents), Err(MessageError::Name));
    }
}

proptest! {
    /// For any payload: if the crate `bitcoin` reads it, we do too, and nothing panics.
    #[test]
    fn random_payloads_do_not_panic(
        command in prop::sample::select(vec![
            Command::ADDR, Command::ADDRV2, Command::GETDATA, Command::GETHEADERS,
            Command::HEADERS, Command::INV, Command::VERSION, Command::SENDCMPCT,
        ]),
        payload in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        if let Ok(message) = Message::decode(command, &payload) {
            if let Message::Headers(list) = &message {
                prop_assert_eq!(list.iter().count(), list.len());
            }
            if let Message::Inv(list) | Message::GetData(list) = &message {
                prop_assert_eq!(list.iter().count(), list.len());
            }
        }
    }
}

#[test]
fn compact_blocks_and_their_transactions_are_as_core_writes_them() {
    use bitcoin::bip152::{BlockTransactions, BlockTransactionsRequest, HeaderAndShortIds};

    let mut block = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    for lock_time in 1..6 {
        let mut tx = block.txdata[0].clone();
        tx.lock_time = bitcoin::absolute::LockTime::from_consensus(lock_time);
        if lock_time % 2 == 0 {
            tx.input[0].witness.push([7; 40]);
        }
        block.txdata.push(tx);
    }
    let bytes = serialize(&block);
    let view = BlockView::parse(&bytes[..]).unwrap();
    let expected = HeaderAndShortIds::from_block(&block, 7, 2, &[]).unwrap();
    assert_eq!(compact_block(&view, 7), serialize(&expected));
    let last = block.txdata.len() as u64 - 1;
    let wanted =
        BlockTransactionsRequest { block_hash: block.block_hash(), indexes: vec![0, 1, last] };
    let payload = serialize(&wanted);
    let Ok(Message::GetBlockTxn(request)) = Message::decode(Command::GETBLOCKTXN, &payload) else {
        panic!("it is valid");
    };
    assert_eq!(request.indexes, [0, 1, last as u16]);
    let answer = BlockTransactions::from_request(&wanted, &block).unwrap();
    assert_eq!(block_transactions(&view, &request).unwrap(), serialize(&answer));
    let beyond = GetBlockTxn { indexes: vec![0, last as u16 + 1], ..request };
    assert_eq!(block_transactions(&view, &beyond), None);
    let overflowing = [&[0; 32][..], &[2, 0xfd, 0xff, 0xff, 0]].concat();
    assert!(Message::decode(Command::GETBLOCKTXN, &overflowing).is_err());
}
