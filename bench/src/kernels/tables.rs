//! Tables in LevelDB's format, by Apus and by rusty-leveldb.

use std::path::Path;
use std::time::Duration;

use apus_disk::Disk;
use apus_leveldb::{Db, Options};
use apus_testchain::Rng;
use rayon::prelude::*;
use rusty_leveldb::LdbIterator;

use super::Size;
use super::figures::Amount::Records;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, quick_digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus");
const RUSTY: (Kind, &str) = (Kind::Other, "rusty-leveldb 4");
/// Number of look-ups in one call, about as many as a block needs.
const TOGETHER: usize = 5_000;
/// The number of runs that are merged.
const RUNS: usize = 4;
/// A key of 37 and a value of 30 bytes, like a coin's.
type Record = ([u8; 37], [u8; 30]);

/// The records to write and the keys to look up.
struct Data {
    records: Vec<Record>,
    /// Keys of a quarter of the records, in random order.
    wanted: Vec<[u8; 37]>,
    /// Digest of all records.
    digest: u64,
}

/// Measures writes, merges, look-ups and scans.
pub fn run(size: Size, dir: &Path, figures: &mut Figures) -> Result<()> {
    let data = Data::new(size.records);
    let few = Effort { warm_up: 0, runs_min: 1, runs_max: 5, budget: Duration::from_secs(2) };
    let effort = if size.records < 100_000 { Effort { runs_max: 1, ..few } } else { few };
    write(effort, &data, dir, figures)?;
    merge(effort, &data, dir, figures)?;
    read_apus(effort, &data, dir, figures)?;
    read_rusty(effort, &data, dir, figures)
}

impl Data {
    fn new(count: u64) -> Self {
        let records: Vec<Record> = (0..count).into_par_iter().map(record).collect();
        let mut random = Rng::from_state(6);
        let wanted = (0..(count / 4).max(1)).map(|_| records[random.below(count) as usize].0);
        let wanted = wanted.collect();
        let add = |sum, (key, value): &Record| quick_digest(quick_digest(sum, key), value);
        let digest = records.iter().fold(0, add);
        Self { records, wanted, digest }
    }

    fn count(&self) -> super::figures::Amount {
        Records(self.records.len() as u64)
    }

    /// Returns the records of one of [`RUNS`] runs, distributed so that the runs overlap
    /// everywhere.
    fn run(&self, index: usize) -> impl Iterator<Item = (&[u8; 37], Option<&[u8; 30]>)> {
        self.records.iter().skip(index).step_by(RUNS).map(|(key, value)| (key, Some(value)))
    }
}

/// Returns the `i`-th record in the order of keys.
fn record(i: u64) -> Record {
    let mut random = Rng::from_state(i);
    let mut key = [0; 37];
    let mut value = [0; 30];
    random.fill(&mut key[9..]);
    random.fill(&mut value);
    key[0] = b'C';
    key[1..9].copy_from_slice(&(i << 20).to_be_bytes());
    (key, value)
}

fn write(effort: Effort, data: &Data, dir: &Path, figures: &mut Figures) -> Result<()> {
    let what = "write sorted records";
    let fresh = || -> Result<_> {
        let place = tempfile::tempdir_in(dir)?;
        Ok((ours(place.path())?, place))
    };
    let (time, db) = effort.time_with(fresh, |db| -> Result<_> {
        let (db, place) = db?;
        db.apply(data.records.iter().map(|(key, value)| (key, Some(value))))?;
        Ok((db, place))
    });
    figures.add(what, (Kind::Apus, "Apus, one thread"), data.count(), time, scan(&db?.0)?)?;
    let part = data.records.len() / (8 * rayon::current_num_threads()) + 1;
    let (time, db) = effort.time_with(fresh, |db| -> Result<_> {
        let (db, place) = db?;
        let run = db.bulk()?;
        data.records.par_chunks(part).try_for_each(|part| {
            let mut writer = run.writer();
            part.iter().try_for_each(|(key, value)| writer.put(key, value))?;
            writer.finish()
        })?;
        run.commit()?;
        Ok((db, place))
    });
    figures.add(what, (Kind::Apus, "Apus, all cores"), data.count(), time, scan(&db?.0)?)?;
    let fresh = || -> Result<_> {
        let place = tempfile::tempdir_in(dir)?;
        Ok((theirs(place.path())?, place))
    };
    let (time, db) = effort.time_with(fresh, |db| -> Result<_> {
        let (mut db, place) = db?;
        put_all(&mut db, data.records.iter())?;
        db.flush()?;
        Ok((db, place))
    });
    figures.add(what, RUSTY, data.count(), time, scan_rusty(&mut db?.0)?)
}

fn merge(effort: Effort, data: &Data, dir: &Path, figures: &mut Figures) -> Result<()> {
    let runs_of = |place: &Path| -> Result<_> {
        let db = ours(place)?;
        (0..RUNS).try_for_each(|index| db.apply(data.run(index)))?;
        Ok(db)
    };
    let fresh = || -> Result<_> {
        let place = tempfile::tempdir_in(dir)?;
        Ok((runs_of(place.path())?, place))
    };
    let (time, db) = effort.time_with(fresh, |db| -> Result<_> {
        let (db, place) = db?;
        db.merge_all()?;
        Ok((db, place))
    });
    let by = (Kind::Apus, "Apus, all cores");
    figures.add("merge 4 runs", by, data.count(), time, scan(&db?.0)?)?;
    let what = "write 4 runs and merge them";
    let (time, db) = effort.time_with(
        || tempfile::tempdir_in(dir),
        |place| -> Result<_> {
            let place = place?;
            let db = runs_of(place.path())?;
            db.merge_all()?;
            Ok((db, place))
        },
    );
    figures.add(what, by, data.count(), time, scan(&db?.0)?)?;
    let (time, db) = effort.time_with(
        || tempfile::tempdir_in(dir),
        |place| -> Result<_> {
            let place = place?;
            let mut db = theirs(place.path())?;
            for index in 0..RUNS {
                put_all(&mut db, data.records.iter().skip(index).step_by(RUNS))?;
            }
            db.compact_range(&[0], &[0xff; 40])?;
            Ok((db, place))
        },
    );
    figures.add(what, RUSTY, data.count(), time, scan_rusty(&mut db?.0)?)
}

fn read_apus(effort: Effort, data: &Data, dir: &Path, figures: &mut Figures) -> Result<()> {
    let place = tempfile::tempdir_in(dir)?;
    let db = ours(place.path())?;
    db.apply(data.records.iter().map(|(key, value)| (key, Some(value))))?;
    db.merge_all()?;
    let (time, sum) = effort.time(|| scan(&db));
    figures.add("scan", APUS, data.count(), time, sum?)?;
    let wanted = Records(data.wanted.len() as u64);
    let get = |key: &[u8; 37]| db.get_with(key, |value| quick_digest(0, value));
    let one_by_one = || {
        data.wanted.iter().try_fold(0u64, |sum, key| {
            get(key).map(|found| sum.wrapping_add(found.unwrap_or_default()))
        })
    };
    let (time, sum) = effort.time(one_by_one);
    figures.add("get", APUS, wanted, time, sum?)?;
    let together = || -> Result<u64> {
        let mut sum = 0;
        let mut sorted = Vec::with_capacity(TOGETHER);
        for part in data.wanted.chunks(TOGETHER) {
            sorted.clear();
            sorted.extend_from_slice(part);
            sorted.sort_unstable();
            db.get_many(&sorted, |_, value| sum = quick_digest(sum, value))?;
        }
        Ok(sum)
    };
    let (time, sum) = effort.time(together);
    figures.add("get_many of 5000", APUS, wanted, time, sum?)
}

fn read_rusty(effort: Effort, data: &Data, dir: &Path, figures: &mut Figures) -> Result<()> {
    let place = tempfile::tempdir_in(dir)?;
    // It gets its own tables: it does not find a key that ends a block and is the block's key in
    // the index, if the entry there has the newest sequence number, as in LevelDB.
    let mut db = theirs(place.path())?;
    put_all(&mut db, data.records.iter())?;
    db.flush()?;
    db.compact_range(&[0], &[0xff; 40])?;
    let (time, sum) = effort.time(|| scan_rusty(&mut db));
    figures.add("scan", RUSTY, data.count(), time, sum?)?;
    let wanted = Records(data.wanted.len() as u64);
    let mut look_up = |keys: &[[u8; 37]]| {
        keys.iter().fold(0u64, |sum, key| {
            sum.wrapping_add(db.get(key).map_or(0, |value| quick_digest(0, &value)))
        })
    };
    let (time, sum) = effort.time(|| look_up(&data.wanted));
    figures.add("get", RUSTY, wanted, time, sum)?;
    let mut sorted = data.wanted.clone();
    sorted.chunks_mut(TOGETHER).for_each(|part| part.sort_unstable());
    let (time, sum) = effort.time(|| look_up(&sorted));
    let by = (Kind::Other, "rusty-leveldb 4, get in sorted order");
    figures.add("get_many of 5000", by, wanted, time, sum)?;
    if scan_rusty(&mut db)? == data.digest {
        Ok(())
    } else {
        Err("the tables do not hold what was written".into())
    }
}

fn ours(place: &Path) -> Result<Db> {
    let options = Options { create_if_missing: true, ..Options::default() };
    Ok(Db::open(Disk::new(), place, options)?)
}

/// Opens a database with the options that Bitcoin Core gives LevelDB: no compression, files of 32
/// MiB.
fn theirs(place: &Path) -> Result<rusty_leveldb::DB> {
    let options = rusty_leveldb::Options {
        compressor: 0,
        max_file_size: 32 << 20,
        write_buffer_size: 16 << 20,
        ..Default::default()
    };
    Ok(rusty_leveldb::DB::open(place, options)?)
}

fn put_all<'a>(
    db: &mut rusty_leveldb::DB,
    records: impl Iterator<Item = &'a Record>,
) -> Result<()> {
    for (key, value) in records {
        db.put(key, value)?;
    }
    Ok(())
}

fn scan(db: &Db) -> Result<u64> {
    let mut cursor = db.scan(&[], None)?;
    let mut sum = 0;
    while let Some((key, value)) = cursor.next_entry()? {
        sum = quick_digest(quick_digest(sum, key), value);
    }
    Ok(sum)
}

fn scan_rusty(db: &mut rusty_leveldb::DB) -> Result<u64> {
    let mut iterator = db.new_iter()?;
    let mut sum = 0;
    while let Some((key, value)) = iterator.next() {
        sum = quick_digest(quick_digest(sum, &key), &value);
    }
    Ok(sum)
}
