//! Serving peers: headers by locator, blocks that they may know of, announcements.

use std::collections::BTreeSet;

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_hash::Hash;
use apus_wire::Header;
use apus_wire::message::{
    Command, FilterRequest, GetHeaders, HEADERS_MAX, Hashes, Inventory, InventoryItem,
    InventoryKind, Message, Services,
};

use super::{headers_on, regtest, tree_of};
use crate::{Answer, BlockForm, Outgoing, Refused, ServedChain, Serving};

const ALL: Services = Services::WITNESS.with(Services::NETWORK).with(Services::NETWORK_LIMITED);
const LIMITED: Services = Services::WITNESS.with(Services::NETWORK_LIMITED);
const DAY: u32 = 24 * 60 * 60;

/// A tree, the branch of it that is served, and the blocks that are stored.
struct World {
    tree: Tree,
    active: ActiveChain,
    stored: BTreeSet<BlockId>,
    services: Services,
    time: i64,
}

impl World {
    /// Serves the first branch; the blocks of all are stored.
    fn of(branches: &[Vec<Header>]) -> Self {
        let tree = tree_of(branches);
        let tip = branches[0].last().map_or(tree.genesis(), |last| id(&tree, last));
        let stored = tree.ids().collect();
        Self { active: ActiveChain::to(&tree, tip), tree, stored, services: ALL, time: 0 }
    }

    fn look<T>(&self, look: impl FnOnce(ServedChain<'_>) -> T) -> T {
        look(ServedChain {
            tree: &self.tree,
            active: &self.active,
            services: self.services,
            time: self.time,
            is_stored: &|id| self.stored.contains(&id),
        })
    }

    fn switch_to(&mut self, tip: &Header) {
        self.active = ActiveChain::to(&self.tree, id(&self.tree, tip));
    }

    fn answer(&self, kind: InventoryKind, hash: Hash, target_reached: bool) -> Answer {
        self.look(|chain| chain.answer(&InventoryItem { kind, hash }, target_reached))
    }

    /// The answer to a request for a block with its witnesses.
    fn block(&self, header: &Header) -> Answer {
        self.answer(InventoryKind::WITNESS_BLOCK, header.hash(), false)
    }

    /// The hashes in the answer to `getheaders`; `None` if there is none.
    fn headers(&self, locator: &[Hash], stop: Hash) -> Option<Vec<Hash>> {
        let request = GetHeaders { version: 70_016, locator: Hashes::List(locator), stop };
        let message = Message::GetHeaders(request);
        let answer = self.look(|chain| Serving::new(chain).handle(&message, chain));
        answer.as_ref().map(hashes)
    }

    fn announce(&self, serving: &mut Serving) -> Option<(Command, Vec<Hash>)> {
        let sent = self.look(|chain| serving.announce(chain))?;
        Some((sent.command, hashes(&sent)))
    }

    fn handle(&self, serving: &mut Serving, message: &Message) {
        self.look(|chain| serving.handle(message, chain));
    }
}

fn id(tree: &Tree, header: &Header) -> BlockId {
    tree.find(&header.hash()).unwrap()
}

/// The blocks that a message is about.
fn hashes(sent: &Outgoing) -> Vec<Hash> {
    match Message::decode(sent.command, &sent.payload).unwrap() {
        Message::Headers(list) => list.iter().map(|header| header.hash()).collect(),
        Message::Inv(list) => list.iter().map(|item| item.hash).collect(),
        other => panic!("{other:?}"),
    }
}

fn hashes_of(headers: &[Header]) -> Vec<Hash> {
    headers.iter().map(Header::hash).collect()
}

/// A chain, and a branch that forks off after its first `common` headers.
fn forked(common: usize, of_first: u32, of_other: u32) -> (Vec<Header>, Vec<Header>) {
    let (_, genesis) = regtest();
    let mut first = headers_on(&genesis, common as u32, 1);
    let fork = *first.last().unwrap_or(&genesis);
    let other = headers_on(&fork, of_other, 3);
    first.extend(headers_on(&fork, of_first, 2));
    (first, other)
}

#[test]
fn headers_follow_the_last_known_of_the_locator() {
    let (chain, other) = forked(2_500, 10, 4);
    let world = World::of(&[chain.clone(), other.clone()]);
    let unknown = Hash([7; 32]);
    let end = Hash::ZERO;
    let at = |height: usize| chain[height - 1].hash();
    for (locator, stop, from, to) in [
        (vec![at(100)], end, 101, 100 + HEADERS_MAX),
        (vec![at(2_000)], end, 2_001, 2_510),
        // The first of the locator that is on the chain counts.
        (vec![unknown, at(2_400), at(2_450)], end, 2_401, 2_510),
        (vec![other[3].hash(), at(2_499)], end, 2_500, 2_510),
        // Of an unknown chain, everything after the genesis block.
        (vec![unknown], end, 1, HEADERS_MAX),
        (vec![at(5)], at(7), 6, 7),
        (vec![at(5)], unknown, 6, 5 + HEADERS_MAX),
    ] {
        let found = world.headers(&locator, stop).unwrap();
        assert_eq!(found, hashes_of(&chain[from - 1..to]), "from {from}");
    }
    assert_eq!(world.headers(&[at(2_510)], end), Some(Vec::new()), "the peer has all");
}

/// Whether each of these requests is answered, as Core's `PrepareBlockFilterRequest` decides.
#[test]
fn filters_are_served_within_cores_limits() {
    let (chain, other) = forked(2_500, 10, 4);
    let mut world = World::of(&[chain.clone(), other.clone()]);
    let filters = |world: &World, command, filter_type, start_height, stop| {
        let request = FilterRequest { command, filter_type, start_height, stop };
        let found = world.look(|chain| chain.filters(&request))?;
        Ok(found.iter().map(|(height, _)| *height).collect::<Vec<u32>>())
    };
    let hash = |height: u32| chain[height as usize - 1].hash();
    let all = Command::GETCFILTERS;
    let headers = Command::GETCFHEADERS;
    let checkpoints = Command::GETCFCHECKPT;
    let heights = |first: u32, last: u32| Ok((first..=last).collect());
    assert_eq!(filters(&world, all, 0, 5, hash(5)), heights(5, 5));
    assert_eq!(filters(&world, all, 0, 1_001, hash(2_000)), heights(1_001, 2_000));
    assert_eq!(filters(&world, headers, 0, 0, hash(1_999)), heights(0, 1_999));
    assert_eq!(filters(&world, headers, 0, 501, hash(2_500)), heights(500, 2_500));
    assert_eq!(filters(&world, checkpoints, 0, 0, hash(2_500)), Ok(vec![1_000, 2_000]));
    assert_eq!(filters(&world, checkpoints, 0, 0, hash(999)), Ok(vec![]));
    let branch =
        [2_500, 2_501].map(|height| world.tree.ancestor(id(&world.tree, &other[3]), height));
    let found = world.look(|chain| {
        let stop = other[3].hash();
        let request = FilterRequest { command: all, filter_type: 0, start_height: 2_500, stop };
        chain.filters(&request).unwrap()
    });
    let expected = branch.map(|id| world.tree.node(id.unwrap()).hash);
    assert_eq!((found.len(), found[0].1, found[1].1), (5, expected[0], expected[1]));
    for (command, filter_type, start, stop, why) in [
        (all, 0, 1_000, hash(2_000), Refused::TooManyFilters(1_001)),
        (headers, 0, 0, hash(2_000), Refused::TooManyFilters(2_001)),
        (all, 0, 6, hash(5), Refused::FilterRange(6, 5)),
        (headers, 0, u32::MAX, hash(5), Refused::FilterRange(u32::MAX, 5)),
        (checkpoints, 1, 0, hash(5), Refused::FilterType(1)),
        (all, 0, 0, Hash([7; 32]), Refused::FiltersOfUnknown),
    ] {
        assert_eq!(filters(&world, command, filter_type, start, stop), Err(why));
    }
    world.stored.remove(&id(&world.tree, &other[3]));
    let left = filters(&world, all, 0, 2_500, other[3].hash());
    assert_eq!(left, Err(Refused::FiltersOfUnknown));
}

#[test]
fn without_a_locator_one_header_is_sent() {
    let (chain, other) = forked(5, 5, 4);
    let mut world = World::of(&[chain.clone(), other.clone()]);
    let header = |world: &World, header: &Header| world.headers(&[], header.hash());
    assert_eq!(header(&world, &chain[3]), Some(vec![chain[3].hash()]));
    assert_eq!(header(&world, &other[3]), Some(vec![other[3].hash()]), "a recent branch");
    assert_eq!(world.headers(&[], Hash([7; 32])), None);
    world.stored.remove(&id(&world.tree, &other[3]));
    assert_eq!(header(&world, &other[3]), None);
}

/// A peer would drop us for headers of too little work.
#[test]
fn a_chain_of_too_little_work_has_no_headers() {
    let (mut network, genesis) = regtest();
    // Each block has a work of two.
    network.minimum_chain_work.0[0] = 8;
    let headers = headers_on(&genesis, 3, 1);
    let mut tree = Tree::new(network);
    for header in &headers {
        tree.restore(header.hash(), header, false).unwrap();
    }
    let tip = id(&tree, &headers[0]);
    let active = ActiveChain::to(&tree, tip);
    let mut world = World { stored: tree.ids().collect(), tree, active, services: ALL, time: 0 };
    let locator = [genesis.hash()];
    assert_eq!(world.headers(&locator, Hash::ZERO), Some(Vec::new()));
    let mut serving = world.look(Serving::new);
    world.switch_to(&headers[1]);
    assert_eq!(world.announce(&mut serving), None);
    let request = GetHeaders { version: 0, locator: Hashes::List(&locator), stop: Hash::ZERO };
    world.handle(&mut serving, &Message::SendHeaders);
    world.handle(&mut serving, &Message::GetHeaders(request));
    // With enough work, it is not taken to have a header from us.
    world.switch_to(&headers[2]);
    let inv = (Command::INV, vec![headers[2].hash()]);
    assert_eq!(world.announce(&mut serving), Some(inv));
}

#[test]
fn blocks_come_with_and_without_witnesses() {
    let (chain, _) = forked(5, 0, 0);
    let world = World::of(std::slice::from_ref(&chain));
    let id = id(&world.tree, &chain[2]);
    let of = |kind| world.answer(kind, chain[2].hash(), false);
    let block = |form| Answer::Block { id, form };
    assert_eq!(of(InventoryKind::WITNESS_BLOCK), block(BlockForm::Complete));
    assert_eq!(of(InventoryKind::BLOCK), block(BlockForm::Stripped));
    for tx in [InventoryKind::TX, InventoryKind::WTX, InventoryKind::WITNESS_TX] {
        assert_eq!(of(tx), Answer::NotFound, "{tx:?}");
    }
    assert_eq!(of(InventoryKind(99)), Answer::Nothing);
    let filtered = of(InventoryKind::FILTERED_BLOCK);
    assert_eq!(filtered, Answer::Disconnect(Refused::FilteredBlock));
    let unknown = world.answer(InventoryKind::WITNESS_BLOCK, Hash([7; 32]), true);
    assert_eq!(unknown, Answer::Nothing);
}

#[test]
fn the_last_blocks_come_as_compact_blocks_while_the_tip_is_recent() {
    let (chain, _) = forked(20, 0, 0);
    let mut world = World::of(std::slice::from_ref(&chain));
    let of = |world: &World, height: usize| match world.answer(
        InventoryKind::COMPACT_BLOCK,
        chain[height - 1].hash(),
        false,
    ) {
        Answer::Block { form, .. } => form,
        other => panic!("{other:?}"),
    };
    let tip_time = i64::from(chain[19].time);
    world.time = tip_time + 20 * 600 - 1;
    assert_eq!([20, 15, 14, 1].map(|height| of(&world, height)), {
        use BlockForm::{Compact, Complete};
        [Compact, Compact, Complete, Complete]
    });
    world.time += 1;
    assert_eq!(of(&world, 20), BlockForm::Complete, "the tip is old");
    let single =
        |height: usize| world.look(|it| it.transactions_of(&chain[height - 1].hash())).is_some();
    assert_eq!([20, 10, 9].map(single), [true, true, false]);
}

#[test]
fn getblocks_names_up_to_500_blocks_before_stop() {
    let (chain, other) = forked(1_200, 10, 4);
    let mut world = World::of(&[chain.clone(), other.clone()]);
    let at = |height: usize| chain[height - 1].hash();
    let ask = |world: &World, serving: &mut Serving, locator: &[Hash], stop| {
        let request = GetHeaders { version: 0, locator: Hashes::List(locator), stop };
        let sent = world.look(|it| serving.handle(&Message::GetBlocks(request), it));
        sent.map_or_else(Vec::new, |sent| {
            assert_eq!(sent.command, Command::INV);
            hashes(&sent)
        })
    };
    let names = |from: usize, to: usize| hashes_of(&chain[from - 1..to]);
    for (locator, stop, from, to) in [
        (vec![], Hash::ZERO, 1, 500),
        (vec![at(3)], Hash::ZERO, 4, 503),
        (vec![at(3)], at(10), 4, 9),
        (vec![at(3)], at(3), 4, 503),
        (vec![other[3].hash(), at(1_200), at(3)], Hash::ZERO, 1_201, 1_210),
        (vec![Hash([7; 32]), at(1_000)], Hash::ZERO, 1_001, 1_210),
        (vec![at(1_210)], Hash::ZERO, 1_211, 1_210),
    ] {
        let mut serving = world.look(Serving::new);
        assert_eq!(ask(&world, &mut serving, &locator, stop), names(from, to));
        let wants = |height: usize| {
            let item = InventoryItem { kind: InventoryKind::WITNESS_BLOCK, hash: at(height) };
            let sent = Outgoing::new(&Inventory(Command::GETDATA, &[item]));
            sent.payload
        };
        let mut continues = |height| {
            let payload = wants(height);
            let message = Message::decode(Command::GETDATA, &payload).unwrap();
            serving.continuation(&message)
        };
        assert_eq!(continues(to - 1), None);
        let is_full = to + 1 == from + 500;
        assert_eq!(continues(to), is_full.then(|| at(to)), "the peer asks for more");
        assert_eq!(continues(to), None, "only once");
    }
    world.services = LIMITED;
    let mut serving = world.look(Serving::new);
    assert_eq!(ask(&world, &mut serving, &[at(900)], Hash::ZERO), []);
    assert_eq!(ask(&world, &mut serving, &[at(927)], Hash::ZERO), []);
    assert_eq!(ask(&world, &mut serving, &[at(928)], Hash::ZERO), names(929, 1_210));
    world.stored.remove(&id(&world.tree, &chain[1_000]));
    assert_eq!(ask(&world, &mut serving, &[at(990)], Hash::ZERO), names(991, 1_000));
}

#[test]
fn only_recent_branches_are_served() {
    let (mut chain, other) = forked(5, 5, 4);
    let world = World::of(&[chain.clone(), other.clone()]);
    assert!(matches!(world.block(&other[3]), Answer::Block { .. }));
    // A month later.
    let last = *chain.last().unwrap();
    let late = Header { prev: last.hash(), time: last.time + 31 * DAY, ..last };
    chain.push(late);
    let world = World::of(&[chain.clone(), other.clone()]);
    assert_eq!(world.block(&other[3]), Answer::Nothing);
    assert!(matches!(world.block(&chain[0]), Answer::Block { .. }), "the active chain");
    // As many blocks later as come in a month.
    let (chain, other) = forked(5, 4_330, 4);
    let world = World::of(&[chain, other.clone()]);
    assert_eq!(world.block(&other[3]), Answer::Nothing);
}

#[test]
fn a_pruned_node_serves_its_last_blocks() {
    let (chain, _) = forked(1_000, 0, 0);
    let mut world = World::of(std::slice::from_ref(&chain));
    world.services = LIMITED;
    let at = |height: usize| &chain[height - 1];
    let of = |id| Answer::Block { id, form: BlockForm::Complete };
    // Two more than 288, since the peer may not know our newest blocks.
    assert_eq!(world.block(at(1_000 - 290)), of(id(&world.tree, at(1_000 - 290))));
    assert_eq!(world.block(at(1_000 - 291)), Answer::Disconnect(Refused::Pruned));
    world.stored.remove(&id(&world.tree, at(900)));
    assert_eq!(world.block(at(900)), Answer::Nothing);
    world.services = ALL;
    assert_eq!(world.block(at(1)), of(id(&world.tree, at(1))));
}

#[test]
fn above_the_upload_target_old_blocks_are_refused() {
    let (mut chain, _) = forked(5, 0, 0);
    let last = chain[4];
    chain.push(Header { prev: last.hash(), time: chain[1].time + 7 * DAY, ..last });
    let world = World::of(std::slice::from_ref(&chain));
    let of = |header: &Header, is_reached| {
        world.answer(InventoryKind::WITNESS_BLOCK, header.hash(), is_reached)
    };
    assert_eq!(of(&chain[0], true), Answer::Disconnect(Refused::UploadTarget));
    assert!(matches!(of(&chain[0], false), Answer::Block { .. }));
    assert!(matches!(of(&chain[1], true), Answer::Block { .. }), "a week old, and not older");
}

#[test]
fn a_new_tip_is_announced_once() {
    let (chain, _) = forked(20, 0, 0);
    let mut world = World::of(std::slice::from_ref(&chain));
    world.switch_to(&chain[9]);
    let mut serving = world.look(Serving::new);
    assert_eq!(world.announce(&mut serving), None, "no new tip");
    world.switch_to(&chain[10]);
    let inv = (Command::INV, vec![chain[10].hash()]);
    assert_eq!(world.announce(&mut serving), Some(inv));
    assert_eq!(world.announce(&mut serving), None);
    // It wants headers, but has not got the parent from us as far as we know.
    world.handle(&mut serving, &Message::SendHeaders);
    world.switch_to(&chain[11]);
    let inv = (Command::INV, vec![chain[11].hash()]);
    assert_eq!(world.announce(&mut serving), Some(inv));
    let locator = [chain[5].hash()];
    let stop = Hash::ZERO;
    let request = GetHeaders { version: 0, locator: Hashes::List(&locator), stop };
    world.handle(&mut serving, &Message::GetHeaders(request));
    world.switch_to(&chain[13]);
    let headers = (Command::HEADERS, hashes_of(&chain[12..14]));
    assert_eq!(world.announce(&mut serving), Some(headers));
    world.switch_to(&chain[14]);
    let headers = (Command::HEADERS, hashes_of(&chain[14..15]));
    assert_eq!(world.announce(&mut serving), Some(headers));
}

#[test]
fn a_reorganisation_is_announced_by_its_headers() {
    let (chain, other) = forked(10, 3, 20);
    let mut world = World::of(&[chain.clone(), other.clone()]);
    let mut serving = world.look(Serving::new);
    world.handle(&mut serving, &Message::SendHeaders);
    let locator = [chain[0].hash()];
    let request = GetHeaders { version: 0, locator: Hashes::List(&locator), stop: Hash::ZERO };
    world.handle(&mut serving, &Message::GetHeaders(request));
    world.switch_to(&other[3]);
    let headers = (Command::HEADERS, hashes_of(&other[..4]));
    assert_eq!(world.announce(&mut serving), Some(headers));
    // More than 8 blocks: only the tip.
    world.switch_to(&other[12]);
    let inv = (Command::INV, vec![other[12].hash()]);
    assert_eq!(world.announce(&mut serving), Some(inv));
}

#[test]
fn a_peer_is_not_told_what_it_has_told_us() {
    let (chain, _) = forked(20, 0, 0);
    let mut world = World::of(std::slice::from_ref(&chain));
    world.switch_to(&chain[9]);
    let mut serving = world.look(Serving::new);
    let sent = Outgoing::new(&apus_wire::message::Headers(&chain[10..11]));
    world.handle(&mut serving, &Message::decode(sent.command, &sent.payload).unwrap());
    world.switch_to(&chain[10]);
    assert_eq!(world.announce(&mut serving), None);
}
