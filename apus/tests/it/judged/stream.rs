//! Random trees of blocks, and the order in which the blocks come.

use std::collections::HashMap;

use apus_consensus::RuleClass;
use apus_hash::Hash;
use apus_testchain::block::{encode_block, mine};
use apus_testchain::{Break, Builder, Parent, Rng, remerkle};
use bitcoin::hashes::Hash as _;
use bitcoin::{Block, OutPoint, Txid, consensus};

use super::world::{BASE_HEIGHT, Fate, World, fate_of};
use crate::support::hash_of;

/// A block of the tree.
pub struct Node {
    pub hash: Hash,
    pub height: u32,
    /// The fate of its unmutated copy, or [`Fate::Mutated`] if there is none.
    pub fate: Fate,
    /// Core's reject reason and class, if a rule is broken.
    pub reason: &'static str,
    pub class: Option<RuleClass>,
    parent: Option<usize>,
    /// The block as the parent of others.
    site: Parent,
}

/// Bytes of a block in the stream.
pub struct Event {
    /// The index of the block's node.
    pub node: usize,
    /// The fate of these bytes: the node's fate, or [`Fate::Mutated`].
    pub fate: Fate,
    pub bytes: Vec<u8>,
}

/// A tree of blocks and the stream in which they come.
pub struct Stream {
    pub nodes: Vec<Node>,
    pub events: Vec<Event>,
    by_hash: HashMap<Hash, usize>,
}

impl Stream {
    /// The stream of a seed. The tree grows in `steps` random steps; then the order of the blocks
    /// is left, or mixed up a little or completely.
    pub fn new(world: &World, seed: u64, steps: u64) -> Self {
        let mut stream = Self { nodes: Vec::new(), events: Vec::new(), by_hash: HashMap::new() };
        let base = world.chains[0].parent(BASE_HEIGHT);
        stream.root(&base);
        let mut rng = Rng::new(seed, 0x7374_7265_616d);
        for _ in 0..steps {
            stream.step(world, &mut rng);
        }
        stream.shuffle(&mut rng);
        stream
    }

    /// Whether a block and all its ancestors have no fault and are in the stream.
    pub fn is_valid(&self, node: usize) -> bool {
        let mut at = Some(node);
        while let Some(index) = at {
            if self.nodes[index].fate != Fate::Sound {
                return false;
            }
            at = self.nodes[index].parent;
        }
        true
    }

    /// [`Stream::is_valid`] of the parent, and false if that is not in the tree.
    pub fn parent_is_valid(&self, node: usize) -> bool {
        self.nodes[node].parent.is_some_and(|parent| self.is_valid(parent))
    }

    /// Whether the headers of a block and of all its ancestors are valid.
    pub fn has_header(&self, node: usize) -> bool {
        let mut at = Some(node);
        while let Some(index) = at {
            if self.nodes[index].fate == Fate::Header {
                return false;
            }
            at = self.nodes[index].parent;
        }
        true
    }

    /// Whether the stream has a mutated copy of a block.
    pub fn has_mutant(&self, node: usize) -> bool {
        self.events.iter().any(|event| event.node == node && event.fate == Fate::Mutated)
    }

    /// The hashes of the valid blocks with the most work.
    pub fn best(&self) -> Vec<Hash> {
        let valid: Vec<usize> =
            (0..self.nodes.len()).filter(|index| self.is_valid(*index)).collect();
        let top = valid.iter().map(|index| self.nodes[*index].height).max().unwrap_or(0);
        let at_top = valid.iter().map(|index| &self.nodes[*index]).filter(|n| n.height == top);
        at_top.map(|node| node.hash).collect()
    }

    /// Reorders the stream so that parents come before their children.
    pub fn parents_first(&mut self) {
        let mut order: Vec<usize> = (0..self.events.len()).collect();
        // The sort is stable, so blocks of one height keep their order.
        order.sort_by_key(|index| self.nodes[self.events[*index].node].height);
        let mut events: Vec<Option<Event>> =
            std::mem::take(&mut self.events).into_iter().map(Some).collect();
        self.events = order.into_iter().filter_map(|index| events[index].take()).collect();
    }

    fn root(&mut self, base: &Parent) {
        let hash = Hash(base.hash.to_byte_array());
        self.by_hash.insert(hash, 0);
        self.nodes.push(Node {
            hash,
            height: base.height,
            fate: Fate::Sound,
            reason: "",
            class: None,
            parent: None,
            site: base.clone(),
        });
    }

    /// Adds bytes to the stream, and their block to the tree if it is not there.
    fn add(&mut self, site: &Parent, block: &Block, bytes: Vec<u8>, fate: Fate) -> usize {
        let hash = hash_of(&bytes);
        let node = *self.by_hash.entry(hash).or_insert(self.nodes.len());
        if node == self.nodes.len() {
            let parent = self.by_hash.get(&Hash(block.header.prev_blockhash.to_byte_array()));
            self.nodes.push(Node {
                hash,
                height: site.height + 1,
                fate: Fate::Mutated,
                reason: "",
                class: None,
                parent: parent.copied(),
                site: site.child(block),
            });
        }
        if fate != Fate::Mutated {
            self.nodes[node].fate = fate;
        }
        self.events.push(Event { node, fate, bytes });
        node
    }

    fn step(&mut self, world: &World, rng: &mut Rng) {
        match rng.below(20) {
            0..=4 => {
                let from = self.some_node(rng);
                self.grow(from, rng);
            }
            5..=8 => self.reveal(world, rng),
            9..=12 => self.break_a_rule(world, rng),
            13..=14 => self.break_by_hand(rng),
            15..=17 => self.mutate(rng),
            _ => self.repeat(rng),
        }
    }

    /// A random node; late ones are more likely.
    fn some_node(&self, rng: &mut Rng) -> usize {
        let last = self.nodes.len() as u64;
        match rng.below(3) {
            0 => rng.below(last) as usize,
            _ => (last - 1 - rng.below(last.min(12))) as usize,
        }
    }

    /// Adds one to nine empty blocks on a node.
    fn grow(&mut self, from: usize, rng: &mut Rng) {
        let mut at = from;
        for _ in 0..rng.between(1, 9) {
            let site = self.nodes[at].site.clone();
            let extra = rng.next_u64().to_le_bytes();
            let block = Builder::block_on(&site).extra(&extra).finish();
            at = self.add(&site, &block, encode_block(&block), Fate::Sound);
        }
    }

    /// Adds the blocks of one of the world's chains up to a random height.
    fn reveal(&mut self, world: &World, rng: &mut Rng) {
        let index = rng.below(world.chains.len() as u64) as usize;
        let tip = u64::from(world.chains[index].height());
        let low = u64::from(BASE_HEIGHT).max(u64::from(world.forks_at[index]).min(tip - 1));
        let top = rng.between(low + 1, tip) as u32;
        self.reveal_up_to(world, index, top);
    }

    fn reveal_up_to(&mut self, world: &World, index: usize, top: u32) {
        let chain = &world.chains[index];
        let first = world.forks_at[index].min(BASE_HEIGHT) + 1;
        for height in first..=top {
            let bytes = &chain.block(height).expect("below the tip").bytes;
            if !self.by_hash.contains_key(&hash_of(bytes)) {
                let block = chain.decoded(height);
                self.add(&chain.parent(height - 1), &block, bytes.clone(), Fate::Sound);
            }
        }
    }

    /// Adds a block on the tip of one of the chains that breaks a rule, or its sound twin, and a
    /// few blocks on top.
    fn break_a_rule(&mut self, world: &World, rng: &mut Rng) {
        let index = rng.below(world.chains.len() as u64) as usize;
        let chain = &world.chains[index];
        let rule = Break::ALL[rng.below(Break::ALL.len() as u64) as usize];
        // Blocks of 4 MB are rare.
        let is_large = matches!(rule, Break::BadBlkWeight | Break::BadBlkLength);
        if is_large && !rng.percent(20) {
            return;
        }
        self.reveal_up_to(world, index, chain.height());
        let site = chain.parent(chain.height());
        let broken = chain.broken(rule);
        let (fate, class) = fate_of(rule);
        // The `bitcoin` crate cannot read a transaction without inputs, so only the header is read.
        let mut block = decoded(&broken.sound);
        block.header = consensus::deserialize(&broken.block[..80]).expect("a header");
        let mut node = self.add(&site, &block, broken.block, fate);
        if fate != Fate::Mutated {
            self.nodes[node].reason = broken.reason;
            self.nodes[node].class = Some(class);
        }
        if rng.percent(40) {
            let twin = self.add(&site, &decoded(&broken.sound), broken.sound, Fate::Sound);
            node = if rng.percent(30) { twin } else { node };
        }
        if rng.percent(70) {
            self.grow(node, rng);
        }
    }

    /// Adds a block on a random node that breaks a rule, and a few blocks on top.
    fn break_by_hand(&mut self, rng: &mut Rng) {
        let from = self.some_node(rng);
        let site = self.nodes[from].site.clone();
        let builder = Builder::block_on(&site).extra(&rng.next_u64().to_le_bytes());
        let mut block = builder.clone().finish();
        let (fate, reason) = match rng.below(5) {
            0 => {
                block.txdata[0].output[0].value += bitcoin::Amount::ONE_SAT;
                remerkle(&mut block);
                (Fate::Coins, "bad-cb-amount")
            }
            1 => {
                let mut spend = block.txdata[0].clone();
                spend.input[0].previous_output = OutPoint::new(Txid::from_byte_array([9; 32]), 0);
                spend.input[0].witness.clear();
                block = builder.tx(spend).finish();
                (Fate::Coins, "bad-txns-inputs-missingorspent")
            }
            2 => {
                let mut second = block.txdata[0].clone();
                second.input[0].witness.clear();
                block = builder.tx(second).finish();
                (Fate::Body, "bad-cb-multiple")
            }
            3 => {
                block.txdata[0].lock_time =
                    bitcoin::absolute::LockTime::from_consensus(499_999_999);
                block.txdata[0].input[0].sequence = bitcoin::Sequence::ZERO;
                remerkle(&mut block);
                (Fate::Body, "bad-txns-nonfinal")
            }
            _ => {
                block.header.time = site.median_time_past();
                mine(&mut block.header, true);
                (Fate::Header, "time-too-old")
            }
        };
        let node = self.add(&site, &block, encode_block(&block), fate);
        self.nodes[node].reason = reason;
        self.nodes[node].class = Some(match fate {
            Fate::Header => RuleClass::InvalidHeader,
            _ => RuleClass::Consensus,
        });
        if rng.percent(60) {
            self.grow(node, rng);
        }
    }

    /// Adds a mutated copy of a block: its header with another body.
    fn mutate(&mut self, rng: &mut Rng) {
        let sound: Vec<usize> = (0..self.events.len())
            .filter(|event| self.events[*event].fate == Fate::Sound)
            .collect();
        if sound.is_empty() {
            return;
        }
        let event = &self.events[sound[rng.below(sound.len() as u64) as usize]];
        let mut block = decoded(&event.bytes);
        let last = block.txdata.len() - 1;
        match rng.below(5) {
            0 => block.txdata[last].output.clear(),
            1 => block.txdata.push(block.txdata[last].clone()),
            2 => block.txdata[last].input[0].witness.push([rng.next_u64() as u8]),
            3 if last > 1 => block.txdata.swap(1, last),
            _ => drop(block.txdata.pop()),
        }
        let bytes = encode_block(&block);
        if bytes != event.bytes {
            let mutant = Event { node: event.node, fate: Fate::Mutated, bytes };
            let at = rng.below(self.events.len() as u64 + 1) as usize;
            self.events.insert(at, mutant);
        }
    }

    fn repeat(&mut self, rng: &mut Rng) {
        if self.events.is_empty() {
            return;
        }
        let event = &self.events[rng.below(self.events.len() as u64) as usize];
        let again = Event { node: event.node, fate: event.fate, bytes: event.bytes.clone() };
        self.events.push(again);
    }

    /// Leaves the order, swaps neighbours, or shuffles everything.
    fn shuffle(&mut self, rng: &mut Rng) {
        let reach = [0, 6, u64::MAX][rng.below(3) as usize];
        for index in (1..self.events.len()).rev() {
            let other = index as u64 - rng.below((index as u64).min(reach) + 1);
            self.events.swap(index, other as usize);
        }
    }
}

fn decoded(bytes: &[u8]) -> Block {
    consensus::deserialize(bytes).expect("a block that parses")
}
