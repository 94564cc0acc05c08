//! The model of a file: the probabilities of the next number, given the numbers before it. Each
//! kind of number and history of numbers is a context, and similar contexts share a table. Tables
//! and the map from contexts to tables are in the file, so that nothing here is tuned to one chain.

use apus_wire::{Cursor, put_compact_size};

use super::DecodeError;
use super::rans::{self, SLOT_BITS, SLOTS, Share};
use super::token::{self, TOKENS};

/// The number of contexts for each kind of number: 5 bits of average, and 3 for each of the two
/// numbers before.
const KIND_CONTEXTS: usize = 1 << 11;
/// The number of contexts.
pub const CONTEXTS: usize = 3 * KIND_CONTEXTS;
/// The largest number of tables in a file. Expanded they are 512 KiB, which fit a core's
/// second-level cache. Twice as many, with twice as many slots, would make files only 0.05 %
/// smaller.
pub const TABLES_MAX: usize = 32;

/// The meaning of a number.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The number of unspent outputs of a block.
    Count,
    /// The index of the first unspent output.
    First,
    /// The number of spent outputs between an unspent one and the one before it.
    Gap,
}

/// The numbers before the next one, as far as its context depends on them.
#[derive(Clone, Copy)]
pub struct History {
    /// 16 times the average weight of the last tokens, of which older ones count less.
    average: u32,
    /// The class of the last token in the lowest 3 bits, and that of the one before in the next 3.
    classes: u32,
}

impl History {
    pub const NEW: Self = Self { average: 16 * 60, classes: 0 };

    #[inline(always)]
    pub fn context(self, kind: Kind) -> usize {
        kind as usize * KIND_CONTEXTS + ((self.average >> 7) << 6 | self.classes) as usize
    }

    #[inline(always)]
    pub fn push(&mut self, weight: u32, class: u32) {
        self.average = self.average - (self.average >> 4) + weight;
        self.classes = (self.classes << 3 | class) & 0x3f;
    }

    /// Returns this history with the class of `token` in the place of that of the token before the
    /// last.
    pub fn after(self, token: usize) -> Self {
        Self { classes: self.classes & 7 | token::class(token) << 3, ..self }
    }
}

/// How often each token occurs in each context.
pub struct Census {
    counts: Vec<[u32; TOKENS]>,
}

impl Default for Census {
    fn default() -> Self {
        Self { counts: vec![[0; TOKENS]; CONTEXTS] }
    }
}

impl Census {
    pub fn count(&mut self, context: usize, token: usize) {
        self.counts[context][token] += 1;
    }

    /// Adds the counts of another census.
    pub fn merge(&mut self, other: &Self) {
        let counts = self.counts.as_flattened_mut().iter_mut();
        counts.zip(other.counts.as_flattened()).for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// The tables of a file, and the table for each context.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The table of each context.
    map: Vec<u8>,
    /// For each table, the number of slots of each token; together they are [`SLOTS`].
    tables: Vec<Vec<u16>>,
}

impl Model {
    pub fn new(census: &Census) -> Self {
        let (map, clusters) = clusters(&census.counts);
        Self { map, tables: clusters.iter().map(|cluster| rans::shares(&cluster.counts)).collect() }
    }

    /// Returns the share of each token, for each table.
    pub fn shares(&self) -> Vec<[Share; TOKENS]> {
        let shares_of = |table: &Vec<u16>| {
            let mut start = 0;
            let mut shares = [Share::default(); TOKENS];
            for (share, slots) in shares.iter_mut().zip(table) {
                *share = Share { start, slots: *slots };
                start += slots;
            }
            shares
        };
        self.tables.iter().map(shares_of).collect()
    }

    pub fn map(&self) -> &[u8] {
        &self.map
    }

    /// Returns whether there are no tables, because there was nothing to encode.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Appends the number of tables; the map, as runs of a table and a length; and for each table
    /// the number of its tokens and their numbers of slots.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.tables.len() as u8);
        if self.tables.is_empty() {
            return;
        }
        for run in self.map.chunk_by(|a, b| a == b) {
            out.push(run[0]);
            put_compact_size(out, run.len() as u64);
        }
        for table in &self.tables {
            let tokens = TOKENS - table.iter().rev().take_while(|slots| **slots == 0).count();
            out.push(tokens as u8);
            table[..tokens].iter().for_each(|slots| put_compact_size(out, u64::from(*slots)));
        }
    }

    /// Reads what [`Model::write`] wrote.
    ///
    /// # Errors
    /// [`Model::write`] could not have written these bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let model = Self::read_some(&mut rest).filter(|_| rest.is_empty());
        model.ok_or_else(|| DecodeError::new("the hints file's tables are damaged"))
    }

    fn read_some(rest: &mut &[u8]) -> Option<Self> {
        let count = usize::from(take_byte(rest)?);
        if count > TABLES_MAX {
            return None;
        }
        let mut map = Vec::with_capacity(CONTEXTS);
        let mut tables = Vec::with_capacity(count);
        while map.len() < CONTEXTS && count > 0 {
            let table = take_byte(rest)?;
            let run = take_number(rest)?;
            if usize::from(table) >= count || run == 0 || run > CONTEXTS - map.len() {
                return None;
            }
            map.resize(map.len() + run, table);
        }
        for _ in 0..count {
            let tokens = usize::from(take_byte(rest)?);
            let mut table = vec![0; TOKENS];
            for slots in table.get_mut(..tokens)? {
                *slots = u16::try_from(take_number(rest)?).ok()?;
            }
            if table.iter().map(|slots| usize::from(*slots)).sum::<usize>() != SLOTS {
                return None;
            }
            tables.push(table);
        }
        Some(Self { map, tables })
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    Some(*byte)
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(rest);
    let number = cursor.compact_size().ok()?;
    *rest = &rest[rest.len() - cursor.remaining()..];
    Some(number)
}

/// A model in the form that decoding needs.
pub struct Decoder {
    map: Vec<u8>,
    tables: Vec<[TableEntry; SLOTS]>,
}

/// A slot of a table, in 8 bytes: the token's smallest number, its number of low bits, its class
/// and weight, the number of its slots, and the index of this slot among them.
#[derive(Clone, Copy)]
pub struct TableEntry(u64);

impl TableEntry {
    fn new(token: usize, share: Share, within: u16) -> Self {
        let (least, bits) = token::range(token);
        Self(
            u64::from(least)
                | u64::from(bits) << 17
                | u64::from(token::class(token)) << 21
                | u64::from(token::weight(token)) << 24
                | u64::from(within) << 32
                | u64::from(share.slots) << 48,
        )
    }

    #[inline(always)]
    pub fn least(self) -> u32 {
        self.0 as u32 & 0x1_ffff
    }

    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0 as u32 >> 17 & 15
    }

    #[inline(always)]
    pub fn class(self) -> u32 {
        self.0 as u32 >> 21 & 7
    }

    #[inline(always)]
    pub fn weight(self) -> u32 {
        self.0 as u32 >> 24
    }

    #[inline(always)]
    pub fn within(self) -> u32 {
        (self.0 >> 32) as u32 & 0xffff
    }

    #[inline(always)]
    pub fn slots(self) -> u32 {
        (self.0 >> 48) as u32
    }
}

impl Decoder {
    pub fn new(model: &Model) -> Self {
        let expand = |shares: &[Share; TOKENS]| {
            let mut table = [TableEntry(0); SLOTS];
            for (token, share) in shares.iter().enumerate() {
                let slots = &mut table[usize::from(share.start)..][..usize::from(share.slots)];
                for (within, entry) in (0..).zip(slots) {
                    *entry = TableEntry::new(token, *share, within);
                }
            }
            table
        };
        Self { map: model.map.clone(), tables: model.shares().iter().map(expand).collect() }
    }

    /// Returns the slot that a state is in, in the table of a context. The model must have tables.
    #[inline(always)]
    pub fn entry(&self, context: usize, state: u32) -> TableEntry {
        let table = &self.tables[usize::from(self.map[context])];
        table[(state & ((1 << SLOT_BITS) - 1)) as usize]
    }
}

/// The approximate number of bits that one more table takes in the file.
const TABLE_BITS: f64 = 500.0;
/// The number of times that contexts are assigned to their nearest clusters.
const ROUNDS: usize = 4;

/// The contexts that share a table, with their counts added up.
struct Cluster {
    counts: [u32; TOKENS],
    bits: f64,
}

impl Cluster {
    fn new(counts: [u32; TOKENS]) -> Self {
        Self { bits: entropy_bits(&counts), counts }
    }

    /// Returns the number of bits that are lost if two clusters share a table.
    fn distance(&self, other: &Self) -> f64 {
        let mut sum = self.counts;
        sum.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        entropy_bits(&sum) - self.bits - other.bits
    }
}

/// Returns the number of bits that tokens with these counts take if they have a table of their own.
fn entropy_bits(counts: &[u32]) -> f64 {
    let n_log_n = |n: f64| if n > 0.0 { n * n.log2() } else { 0.0 };
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    n_log_n(total) - counts.iter().map(|count| n_log_n(f64::from(*count))).sum::<f64>()
}

/// Groups similar contexts. Returns the cluster of each context, and the clusters.
///
/// The first cluster is the context with the most numbers. Each further one is the context that
/// loses most by sharing a table with the nearest cluster. After that, contexts are assigned to
/// their nearest clusters, several times.
fn clusters(counts: &[[u32; TOKENS]]) -> (Vec<u8>, Vec<Cluster>) {
    let all: Vec<Cluster> = counts.iter().map(|counts| Cluster::new(*counts)).collect();
    let total = |i: &usize| counts[*i].iter().map(|count| u64::from(*count)).sum::<u64>();
    let used: Vec<usize> = (0..all.len()).filter(|i| total(i) > 0).collect();
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut lost = vec![f64::INFINITY; used.len()];
    let mut next = used.iter().copied().max_by_key(total);
    while let Some(seed) = next.filter(|_| clusters.len() < TABLES_MAX) {
        let cluster = Cluster::new(counts[seed]);
        lost.iter_mut().zip(&used).for_each(|(l, i)| *l = l.min(cluster.distance(&all[*i])));
        clusters.push(cluster);
        let most = (0..used.len()).max_by(|a, b| lost[*a].total_cmp(&lost[*b]));
        next = most.filter(|most| lost[*most] > TABLE_BITS).map(|most| used[most]);
    }
    let mut map = vec![0; counts.len()];
    for _ in 0..ROUNDS {
        for i in &used {
            let distances = clusters.iter().map(|cluster| cluster.distance(&all[*i]));
            let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            map[*i] = nearest.map_or(0, |(nearest, _)| nearest as u8);
        }
        clusters = added_up(&used, counts, &mut map);
    }
    // A context that never occurs gets the table of the one before, which makes runs longer.
    let mut last = map.first().copied().unwrap_or(0);
    let mut used = used.into_iter().peekable();
    for (i, table) in map.iter_mut().enumerate() {
        match used.next_if_eq(&i) {
            Some(_) => last = *table,
            None => *table = last,
        }
    }
    (map, clusters)
}

/// Removes clusters without contexts from a map, and returns the others.
fn added_up(used: &[usize], counts: &[[u32; TOKENS]], map: &mut [u8]) -> Vec<Cluster> {
    let mut sums: Vec<[u32; TOKENS]> = Vec::new();
    let mut number = [None; 256];
    for i in used {
        let table = &mut map[*i];
        let new = *number[usize::from(*table)].get_or_insert_with(|| {
            sums.push([0; TOKENS]);
            sums.len() - 1
        });
        *table = new as u8;
        sums[new].iter_mut().zip(&counts[*i]).for_each(|(sum, count)| *sum += count);
    }
    sums.into_iter().map(Cluster::new).collect()
}
