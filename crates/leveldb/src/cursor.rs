use std::cmp::Ordering;
use std::sync::Arc;

use apus_disk::Result;

use super::format::{Kind, split_key, user_key};
use super::table::{Table, TableCursor};
use super::version::{SortedRun, Version};

/// A cursor over a database in ascending order of its keys, with the newest value of each; deleted
/// keys are skipped.
///
/// It sees the database as it was when the cursor was created.
pub struct Cursor {
    merged: Merged,
    to: Option<Vec<u8>>,
}

impl Cursor {
    pub(super) fn new(version: &Version, from: &[u8], to: Option<&[u8]>) -> Result<Self> {
        let mut merged = Merged::of(&version.runs, TableCursor::of_scan);
        merged.seek(from)?;
        Ok(Self { merged, to: to.map(<[u8]>::to_vec) })
    }

    /// Moves to the next entry and returns it; `None` after the last. The first call returns the
    /// first entry. The value is borrowed from its table, not copied.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            match self.merged.next_newest()? {
                None => return Ok(None),
                Some(Kind::Delete) => {}
                Some(Kind::Put) => break,
            }
        }
        if self.to.as_deref().is_some_and(|to| self.merged.key() >= to) {
            self.merged.stop();
            self.merged.cursors.iter().for_each(RunCursor::release);
            return Ok(None);
        }
        Ok(Some((self.merged.key(), self.merged.value()?)))
    }

    /// Moves before the first entry whose key is at least `key`. The end of the range stays.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.merged.seek(key)
    }
}

/// An iterator over copies of the entries of a [`Cursor`]. It ends after an error.
pub struct Entries(Option<Cursor>);

impl IntoIterator for Cursor {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Entries;

    fn into_iter(self) -> Entries {
        Entries(Some(self))
    }
}

impl Iterator for Entries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = match self.0.as_mut()?.next_entry() {
            Ok(Some((key, value))) => return Some(Ok((key.to_vec(), value.to_vec()))),
            Ok(None) => None,
            Err(e) => Some(Err(e)),
        };
        self.0 = None;
        result
    }
}

/// A cursor over the entries of one run.
struct RunCursor {
    tables: Arc<[Arc<Table>]>,
    at: usize,
    cursor: TableCursor,
}

impl RunCursor {
    fn seek(&mut self, run: &SortedRun, key: &[u8]) -> Result<bool> {
        self.at = run.find(key);
        match self.tables.get(self.at) {
            None => Ok(false),
            Some(table) if self.cursor.seek(table, key)? => Ok(true),
            Some(_) => self.next_table(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if self.cursor.advance(&self.tables[self.at])? { Ok(true) } else { self.next_table() }
    }

    fn next_table(&mut self) -> Result<bool> {
        self.release();
        while self.at + 1 < self.tables.len() {
            self.at += 1;
            if self.cursor.seek_first(&self.tables[self.at])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Releases the memory of the table.
    fn release(&self) {
        if let Some(table) = self.tables.get(self.at) {
            self.cursor.release(table);
        }
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        user_key(self.cursor.key())
    }
}

/// Merges runs, ordered from newest to oldest, into one ascending sequence of the newest entry of
/// each key, deletions included.
pub(super) struct Merged {
    runs: Vec<SortedRun>,
    cursors: Vec<RunCursor>,
    /// Indices of the cursors that are at an entry; the one to read next is at the end. Of equal
    /// keys, that of the newest run is read first.
    order: Vec<usize>,
    /// Whether the front entry has been returned.
    taken: bool,
    /// Sequence number and kind of the entry returned last.
    trailer: u64,
    /// The key returned last, or else the one sought: no later key may be smaller.
    last: Vec<u8>,
}

impl Merged {
    pub(super) fn new(runs: &[SortedRun]) -> Self {
        Self::of(runs, TableCursor::default)
    }

    fn of(runs: &[SortedRun], cursor: fn() -> TableCursor) -> Self {
        let cursor =
            |run: &SortedRun| RunCursor { tables: run.tables.clone(), at: 0, cursor: cursor() };
        Self {
            runs: runs.to_vec(),
            cursors: runs.iter().map(cursor).collect(),
            order: Vec::with_capacity(runs.len()),
            taken: false,
            trailer: 0,
            last: Vec::new(),
        }
    }

    /// Moves before the first entry whose key is at least `key`.
    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.stop();
        self.last.clear();
        self.last.extend_from_slice(key);
        for i in 0..self.cursors.len() {
            if self.cursors[i].seek(&self.runs[i], key)? {
                self.order.push(i);
            }
        }
        let cursors = &self.cursors;
        self.order.sort_by(|a, b| compare(cursors, *b, *a));
        Ok(())
    }

    /// Moves after the last entry.
    pub(super) fn stop(&mut self) {
        self.order.clear();
        self.taken = false;
    }

    /// Moves to the next key and returns the kind of its newest entry; `None` at the end.
    #[inline]
    pub(super) fn next_newest(&mut self) -> Result<Option<Kind>> {
        let mut skip = false;
        if self.taken {
            self.taken = false;
            skip = true;
            let front = &self.cursors[self.order[self.order.len() - 1]];
            self.last.clear();
            self.last.extend_from_slice(front.user_key());
            self.advance_front()?;
        }
        loop {
            let Some(&front) = self.order.last() else { return Ok(None) };
            let front = &self.cursors[front];
            let Some(internal) = split_key(front.cursor.key()) else {
                return Err(front.cursor.bad_entry(
                    &front.tables[front.at],
                    "the key is too short or of an unknown kind",
                ));
            };
            if skip && internal.user == self.last {
                self.advance_front()?;
                continue;
            }
            if internal.user < self.last.as_slice() {
                let table = &front.tables[front.at];
                return Err(front
                    .cursor
                    .bad_entry(table, "the key is smaller than the previous one"));
            }
            self.taken = true;
            self.trailer = internal.trailer;
            return Ok(Some(internal.kind));
        }
    }

    /// Returns the user key of the entry that [`Merged::next_newest`] moved to.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.order.last().map_or(&[], |front| self.cursors[*front].user_key())
    }

    /// Returns the sequence number of the entry that [`Merged::next_newest`] moved to.
    pub(super) fn sequence(&self) -> u64 {
        self.trailer >> 8
    }

    /// Returns the value of the entry that [`Merged::next_newest`] moved to.
    #[inline]
    pub(super) fn value(&self) -> Result<&[u8]> {
        let Some(&front) = self.order.last() else { return Ok(&[]) };
        let front = &self.cursors[front];
        front.cursor.value(&front.tables[front.at])
    }

    #[inline]
    fn advance_front(&mut self) -> Result<()> {
        let Some(&front) = self.order.last() else { return Ok(()) };
        if !self.cursors[front].advance()? {
            self.order.pop();
            return Ok(());
        }
        // In most steps the cursor stays in front, after one comparison.
        let mut at = self.order.len() - 1;
        while at > 0 && compare(&self.cursors, self.order[at - 1], front).is_lt() {
            self.order[at] = self.order[at - 1];
            at -= 1;
        }
        self.order[at] = front;
        Ok(())
    }
}

/// Returns the order in which cursors `a` and `b` are read. Cursors of newer runs have lower
/// indices.
#[inline]
fn compare(cursors: &[RunCursor], a: usize, b: usize) -> Ordering {
    cursors[a].user_key().cmp(cursors[b].user_key()).then(a.cmp(&b))
}
