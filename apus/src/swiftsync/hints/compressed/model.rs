//! What is expected of the next number, by the numbers before it: a context for each kind and
//! history, and a table of shares for contexts that are alike. The file holds which ones those
//! are, so that nothing here is tuned to one chain.

use super::rans::{self, SLOT_BITS, SLOTS, Share};
use super::token::{self, TOKENS};
use crate::swiftsync::hints::HintsError;
use crate::swiftsync::hints::elias_fano::read_compact_size;
use crate::wire::put_compact_size;

/// Contexts of one kind of number: 5 bits of average, 3 for each of two numbers before.
const KIND_CONTEXTS: usize = 1 << 11;
/// Contexts of all kinds of numbers.
pub const CONTEXTS: usize = 3 * KIND_CONTEXTS;
/// Tables that a file has at most: 512 KiB when expanded, of which a core's second cache holds
/// all. Twice as many, with twice the slots, make files smaller by 0.05 %.
pub const TABLES_MAX: usize = 32;

/// What a number says.
#[derive(Clone, Copy)]
pub enum Kind {
    /// How many outputs of a block are unspent.
    Count,
    /// The index of the first one.
    First,
    /// How many spent ones lie between an unspent one and the one before.
    Gap,
}

/// What came before.
#[derive(Clone, Copy)]
pub struct History {
    /// 16 times the average of the last weights, those further back counting less.
    average: u32,
    /// The last class, and above it the one before.
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

    /// This history with the class of another token in the place of the one before the last.
    pub fn after(self, token: usize) -> Self {
        Self { classes: self.classes & 7 | token::class(token) << 3, ..self }
    }
}

/// How often each token stood in each context.
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

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        let counts = self.counts.as_flattened_mut().iter_mut();
        counts.zip(other.counts.as_flattened()).for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// A table for every context.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The table of each context.
    map: Vec<u8>,
    /// The slots of each token, which are [`SLOTS`] together.
    tables: Vec<Vec<u16>>,
}

impl Model {
    pub fn new(census: &Census) -> Self {
        let (map, clusters) = clusters(&census.counts);
        Self { map, tables: clusters.iter().map(|cluster| rans::shares(&cluster.counts)).collect() }
    }

    /// Where in its table each token is, table by table.
    pub fn shares(&self) -> Vec<[Share; TOKENS]> {
        let shares_of = |table: &Vec<u16>| {
            let (mut start, mut shares) = (0, [Share::default(); TOKENS]);
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

    /// Whether it has no tables, since there was nothing to code.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The number of tables; the map as runs of a table and its length; and for each table the
    /// number of tokens and their slots.
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

    /// # Errors
    /// Not what `write` could have written.
    pub fn read(bytes: &[u8]) -> Result<Self, HintsError> {
        let mut rest = bytes;
        let model = Self::read_some(&mut rest).filter(|_| rest.is_empty());
        model.ok_or_else(|| HintsError::new("the hints file's tables are damaged"))
    }

    fn read_some(rest: &mut &[u8]) -> Option<Self> {
        let count = usize::from(take_byte(rest)?);
        if count > TABLES_MAX {
            return None;
        }
        let (mut map, mut tables) = (Vec::with_capacity(CONTEXTS), Vec::with_capacity(count));
        while map.len() < CONTEXTS && count > 0 {
            let (table, run) = (take_byte(rest)?, take_number(rest)?);
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
    let (byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(*byte)
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let (number, len) = read_compact_size(rest).ok()?;
    *rest = &rest[len..];
    Some(number as usize)
}

/// A model as it is decoded with.
pub struct Decoder {
    map: Vec<u8>,
    tables: Vec<[TableEntry; SLOTS]>,
}

/// All that is to be known of a slot, in 8 bytes: the token's numbers (least, and bits), its class
/// and weight, its slots, and which one of them this is.
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

    /// What the state stands for in this context. Without tables there are no contexts.
    #[inline(always)]
    pub fn entry(&self, context: usize, state: u32) -> TableEntry {
        let table = &self.tables[usize::from(self.map[context])];
        table[(state & ((1 << SLOT_BITS) - 1)) as usize]
    }
}

/// Bits that a table and what goes with it take in the file, about.
const TABLE_BITS: f64 = 500.0;
/// How often contexts look for a nearer cluster.
const ROUNDS: usize = 4;

/// Contexts that share a table, added up.
struct Cluster {
    counts: [u32; TOKENS],
    bits: f64,
}

impl Cluster {
    fn new(counts: [u32; TOKENS]) -> Self {
        Self { bits: entropy_bits(&counts), counts }
    }

    /// Bits that are lost where these and those share a table.
    fn distance(&self, other: &Self) -> f64 {
        let mut sum = self.counts;
        sum.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        entropy_bits(&sum) - self.bits - other.bits
    }
}

/// Bits of so many tokens in a table of their own.
fn entropy_bits(counts: &[u32]) -> f64 {
    let n_log_n = |n: f64| if n > 0.0 { n * n.log2() } else { 0.0 };
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    n_log_n(total) - counts.iter().map(|count| n_log_n(f64::from(*count))).sum::<f64>()
}

/// The cluster of each context, and the clusters. The first one is the context with the most
/// numbers, each further one the context that loses most by joining the nearest; then contexts
/// join the nearest cluster, some times over.
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
    // What never occurs makes the runs longer.
    let (mut last, mut used) = (map.first().copied().unwrap_or(0), used.into_iter().peekable());
    for (i, table) in map.iter_mut().enumerate() {
        match used.next_if_eq(&i) {
            Some(_) => last = *table,
            None => *table = last,
        }
    }
    (map, clusters)
}

/// The clusters of a map, which is changed so that none is empty.
fn added_up(used: &[usize], counts: &[[u32; TOKENS]], map: &mut [u8]) -> Vec<Cluster> {
    let (mut sums, mut number): (Vec<[u32; TOKENS]>, _) = (Vec::new(), [None; 256]);
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
