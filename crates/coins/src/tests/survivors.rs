use std::collections::BTreeMap;
use std::path::Path;

use apus_disk::{Caching, Disk, PowerCut, StoreError};
use apus_hash::{Hash, sha256};
use apus_leveldb::Options;
use apus_testdata::{Random, memory_of};
use apus_wire::OutPoint;

use super::{coin, outpoint};
use crate::survivors::{Survivors, WriteError};
use crate::*;

type Coins = Vec<(OutPoint, Coin)>;

fn chainstate(dir: &Path) -> Chainstate {
    let options = Options { create_if_missing: true, ..Options::default() };
    Chainstate::open(Disk::new(), dir, options).expect("it opens")
}

/// Returns ordinary coins, and rare ones: with indices whose keys sort differently, with long
/// scripts, with many outputs of one transaction.
fn coins(numbers: std::ops::Range<u64>) -> Coins {
    let mut coins: Coins = numbers.clone().map(|n| (outpoint(n), coin(n))).collect();
    let txid = Hash(sha256(format!("rare {}", numbers.start).as_bytes()));
    for vout in [0, 127, 128, 255, 256, 16_511, 16_512, 40_000, 2_113_664, u32::MAX] {
        coins.push((OutPoint { txid, vout }, coin(vout.into())));
    }
    for (vout, len) in [(1, 4_090), (2, 10_000), (3, 4_000), (4, 10_000), (5, 0)] {
        coins.push((OutPoint { txid, vout }, Coin::new(1, &vec![0x51; len], 77, true)));
    }
    coins.extend((1000..3000).map(|vout| (OutPoint { txid, vout }, coin(vout.into()))));
    coins
}

fn sorted(mut coins: Coins) -> Coins {
    coins.sort_by(|a, b| key_order(&a.0, &b.0));
    coins
}

/// Pushes coins from several threads, which take turns and flush now and then.
fn push(survivors: &Survivors, coins: &Coins, threads: usize) -> Result<(), StoreError> {
    std::thread::scope(|scope| {
        let push = |thread: usize| {
            let mut writer = SurvivorWriter::new(survivors);
            for (i, (at, coin)) in coins.iter().skip(thread).step_by(threads).enumerate() {
                writer.push(&at.txid, at.vout, &coin.parts())?;
                if i % 5000 == 4999 {
                    writer.flush()?;
                }
            }
            writer.flush()
        };
        let spawned: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || push(thread))).collect();
        spawned.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Writes all coins with `parts` threads and commits them.
fn write(survivors: &Survivors, chainstate: &Chainstate, parts: usize) -> Result<(), WriteError> {
    let bulk = chainstate.bulk()?;
    let ranges = survivors.ranges(parts);
    assert!(ranges.len() <= parts);
    std::thread::scope(|scope| {
        let write = |range| -> Result<(), WriteError> {
            let mut writer = bulk.writer();
            survivors.write_range(range, &mut writer)?;
            Ok(writer.finish()?)
        };
        let spawned: Vec<_> = ranges.into_iter().map(|r| scope.spawn(move || write(r))).collect();
        spawned.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(bulk.commit(&Hash([9; 32]))?)
}

fn all(chainstate: &Chainstate) -> Coins {
    let mut coins = Vec::new();
    for mut scan in chainstate.scans(1).expect("scans") {
        while let Some(found) = scan.next_coin().expect("a coin") {
            coins.push(found);
        }
    }
    coins
}

fn check(survivors: &Survivors, expected: Coins, parts: usize) {
    assert_eq!(survivors.count(), expected.len() as u64);
    assert_eq!(survivors.amount(), expected.iter().map(|(_, coin)| coin.amount).sum::<u64>());
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = chainstate(dir.path());
    write(survivors, &chainstate, parts).expect("written");
    assert!(all(&chainstate) == sorted(expected), "{parts} parts");
}

#[test]
fn coins_in_any_order_by_any_number_of_threads_come_out_sorted() {
    // With the first two, slots are moved to the file many times; with the others, hardly ever.
    for (bits, threads, parts, memory) in
        [(0, 1, 1, 1 << 20), (2, 3, 4, 0), (10, 4, 5, 32 << 20), (10, 2, 99, 0)]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let survivors =
            Survivors::with_bits(&Disk::new(), dir.path(), memory, Caching::Direct, bits);
        let coins = coins(0..30_000);
        push(&survivors, &coins, threads).expect("pushed");
        let file = dir.path().join("survivors.dat");
        assert!(file.exists(), "{bits} bits");
        if bits == 10 {
            let lens: Vec<usize> = survivors.ranges(4).into_iter().map(|r| r.len()).collect();
            assert_eq!(lens.iter().sum::<usize>(), 1024);
            assert!(lens.len() == 4 && lens.iter().all(|len| (180..290).contains(len)), "{lens:?}");
        }
        check(&survivors, coins, parts);
        survivors.destroy().expect("removed");
        assert!(!file.exists());
    }
    let none = Survivors::new(&Disk::new(), Path::new("unused"), 1 << 20, Caching::Direct);
    check(&none, Vec::new(), 3);
    none.destroy().expect("nothing to remove");
}

#[test]
fn a_resumed_run_has_the_coins_that_were_saved_and_no_others() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = Random(seed << 32);
        let memory = random.below(3) * 60_000;
        let mut survivors =
            Survivors::with_bits(&Disk::new(), dir.path(), memory, Caching::Direct, 3);
        let mut expected = Coins::new();
        let mut unsaved = Coins::new();
        let mut saved = survivors.save().expect("nothing to save");
        for step in 0..12u64 {
            let new = coins(step * 10_000..step * 10_000 + random.below(3000) as u64);
            push(&survivors, &new, 1 + random.below(3)).expect("pushed");
            unsaved.extend(new);
            match random.below(3) {
                0 => {
                    saved = survivors.save().expect("saved");
                    saved = SavedSurvivors::from_bytes(&saved.to_bytes()).expect("the same");
                    expected.append(&mut unsaved);
                    assert_eq!(saved.count(), expected.len() as u64);
                }
                1 => {
                    drop(survivors);
                    unsaved.clear();
                    survivors = Survivors::resume(
                        &Disk::new(),
                        dir.path(),
                        memory,
                        Caching::Direct,
                        &saved,
                    )
                    .expect("resumed");
                }
                _ => {}
            }
        }
        expected.append(&mut unsaved);
        check(&survivors, expected, 2);
    }
}

/// Returns coins of transactions whose txids all begin with the same 17 bits.
fn ground(numbers: std::ops::Range<u64>) -> impl Iterator<Item = (OutPoint, Coin)> {
    numbers.map(|n| {
        let mut txid = Hash(sha256(&(n / 3).to_le_bytes()));
        (txid.0[0], txid.0[1], txid.0[2]) = (9, 77, txid.0[2] & 127);
        (OutPoint { txid, vout: (n % 3) as u32 }, coin(n))
    })
}

#[test]
fn coins_of_chosen_txids_come_out_sorted() {
    for (memory, parts) in [(0, 1), (1 << 20, 3)] {
        let dir = tempfile::tempdir().expect("a directory");
        let survivors = Survivors::new(&Disk::new(), dir.path(), memory, Caching::Direct);
        let chosen: Coins = coins(0..2000).into_iter().chain(ground(0..20_000)).collect();
        push(&survivors, &chosen, 2).expect("pushed");
        check(&survivors, chosen, parts);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the file of all coins");
    }
    // The same outpoint in the same run, and in another one.
    for again in [19_000, 2] {
        let dir = tempfile::tempdir().expect("a directory");
        let survivors = Survivors::new(&Disk::new(), dir.path(), 0, Caching::Direct);
        let mut chosen: Coins = ground(0..20_000).collect();
        chosen.insert(19_001, chosen[again].clone());
        push(&survivors, &chosen, 1).expect("pushed");
        let chainstate = chainstate(dir.path());
        match write(&survivors, &chainstate, 1) {
            Err(WriteError::Twice(at)) => assert_eq!(at, chosen[again].0),
            other => panic!("{other:?}"),
        }
    }
}

/// A miner who computes 1024 hashes for each transaction can put all coins into one slot.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/self/status")]
fn a_slot_of_chosen_txids_is_sorted_in_bounded_memory() {
    let prepare = || tempfile::tempdir().expect("a directory");
    let bytes = memory_of(a_slot_of_chosen_txids_is_sorted_in_bounded_memory, prepare, |dir| {
        let survivors = Survivors::new(&Disk::new(), dir.path(), 8 << 20, Caching::Direct);
        let mut writer = SurvivorWriter::new(&survivors);
        for (at, coin) in ground(0..900_000) {
            writer.push(&at.txid, at.vout, &coin.parts()).expect("pushed");
        }
        writer.flush().expect("flushed");
        drop(writer);
        let mut count = 0;
        let mut before = Vec::new();
        let each = |key: &[u8], _: &mut [u8]| {
            assert!(before.as_slice() < key);
            (count, before) = (count + 1, key.to_vec());
            Ok(())
        };
        survivors.for_each_in(0..Survivors::SLOTS_MAX, each).expect("visited");
        assert_eq!(count, 900_000);
    });
    // The coins have 50 MB.
    assert!(bytes.is_none_or(|bytes| bytes < 24 << 20), "{bytes:?}");
}

#[test]
fn an_outpoint_that_comes_twice_is_named() {
    let coins = coins(0..2000);
    for again in [0, 1500, 2003, 2011, 3500] {
        for (memory, save) in [(1 << 20, false), (1 << 20, true), (0, false)] {
            let dir = tempfile::tempdir().expect("a directory");
            let survivors =
                Survivors::with_bits(&Disk::new(), dir.path(), memory, Caching::Direct, 2);
            push(&survivors, &coins, 2).expect("pushed");
            if save {
                survivors.save().expect("saved");
            }
            push(&survivors, &vec![(coins[again].0, coin(7))], 1).expect("pushed");
            let chainstate = chainstate(dir.path());
            match write(&survivors, &chainstate, 1) {
                Err(WriteError::Twice(at)) => assert_eq!(at, coins[again].0),
                other => panic!("{other:?}"),
            }
            assert_eq!(chainstate.best_block().expect("read"), None);
        }
    }
}

#[test]
#[should_panic(expected = "dropped unflushed")]
fn coins_that_were_not_flushed_are_not_lost_silently() {
    let dir = tempfile::tempdir().expect("a directory");
    let survivors = Survivors::new(&Disk::new(), dir.path(), 1 << 20, Caching::Direct);
    let mut writer = SurvivorWriter::new(&survivors);
    writer.push(&Hash([1; 32]), 0, &coin(1).parts()).expect("pushed");
    drop(writer);
    let _ = survivors.save();
}

#[test]
#[should_panic(expected = "it is not a coin")]
fn a_script_that_nobody_can_spend_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let survivors = Survivors::new(&Disk::new(), dir.path(), 1 << 20, Caching::Direct);
    let too_long = vec![6; 10_006];
    let parts = CoinParts { amount: 1, code: 1, script: &too_long };
    let _ = SurvivorWriter::new(&survivors).push(&Hash([1; 32]), 0, &parts);
}

#[test]
fn damage_to_the_file_is_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let survivors = Survivors::with_bits(&Disk::new(), dir.path(), 1 << 20, Caching::Direct, 2);
    push(&survivors, &coins(0..300), 1).expect("pushed");
    let saved = survivors.save().expect("saved");
    drop(survivors);
    let path = dir.path().join("survivors.dat");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[5000] ^= 1;
    std::fs::write(&path, &bytes).expect("written");
    let resume = || Survivors::resume(&Disk::new(), dir.path(), 1 << 20, Caching::Direct, &saved);
    let survivors = resume().expect("resumed");
    let chainstate = chainstate(&dir.path().join("chainstate"));
    let error = write(&survivors, &chainstate, 1).expect_err("damaged").to_string();
    assert!(error.contains("survivors.dat at byte") && error.contains("damaged"), "{error}");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert!(resume().is_err(), "cut short");
    std::fs::remove_file(&path).expect("removed");
    assert!(resume().is_err(), "gone");

    let bytes = saved.to_bytes();
    assert_eq!(SavedSurvivors::from_bytes(&bytes), Ok(saved));
    for end in 0..bytes.len() {
        assert!(SavedSurvivors::from_bytes(&bytes[..end]).is_err(), "{end} bytes");
    }
    assert!(SavedSurvivors::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    let mut three_slots = bytes;
    assert_eq!(std::mem::replace(&mut three_slots[24], 3), 4);
    assert!(SavedSurvivors::from_bytes(&three_slots).is_err());
}

/// After any power failure, the saved coins are there, and once the others are pushed again the
/// result is right.
#[test]
fn a_power_cut_loses_only_what_was_not_saved() {
    let first = coins(0..200);
    let second = coins(1000..1400);
    let mut resumed = 0;
    for power in (1..).flat_map(|step| PowerCut::kinds(step, 2)) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::with_power_cut(power.clone());
        let mut saved = None;
        let work = || -> Result<(), StoreError> {
            let survivors = Survivors::with_bits(&disk, dir.path(), 0, Caching::Direct, 1);
            push(&survivors, &first, 1)?;
            saved = Some(survivors.save()?);
            push(&survivors, &second, 1)?;
            survivors.save()?;
            Ok(())
        };
        let result = { work }();
        power.lose_unsynced().expect("the power is gone");
        let survivors = match &saved {
            Some(saved) => Survivors::resume(&Disk::new(), dir.path(), 0, Caching::Direct, saved)
                .expect("resumed"),
            None => Survivors::with_bits(&Disk::new(), dir.path(), 0, Caching::Direct, 1),
        };
        resumed += u32::from(saved.is_some());
        let mut expected = match saved {
            Some(_) => first.clone(),
            None => Coins::new(),
        };
        push(&survivors, &second, 1).expect("pushed");
        expected.extend(second.clone());
        check(&survivors, expected, 1);
        if result.is_ok() {
            break;
        }
    }
    assert!(resumed > 5);
}

#[test]
fn scripts_are_compressed_without_an_allocation_the_same_way() {
    let mut out = Vec::with_capacity(200);
    let at = out.as_ptr();
    let mut forms = BTreeMap::new();
    for seed in 0..300 {
        let script = coin(seed).script.to_script();
        assert_eq!(compress_script(&script, &mut out), CompactScript::new(&script).as_bytes());
        *forms.entry(out[0]).or_insert(0) += 1;
    }
    let key = [&[0x76, 0xa9, 20][..], &[7; 20], &[0x88, 0xac]].concat();
    assert_eq!(compress_script(&key, &mut out), [&[0][..], &[7; 20]].concat());
    assert!(forms.len() > 3);
    assert_eq!(out.as_ptr(), at);
}
