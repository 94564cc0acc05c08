//! Each set of flags that blocks have had.

use std::collections::BTreeSet;

use apus_hash::Hash;
use apus_wire::opcodes::*;
use apus_wire::{Chain, Network, ScriptFlags, flags};

use super::build::{Asm, Spend, Wrap, by, bytes, p2pkh, public};
use super::{ALL, Expected, Judged, expect, families, judge};
use crate::FastVerdict;
use crate::script::{Left, flags_allow};
use apus_consensus::script_flags;

/// The sets of flags of all blocks of all networks.
pub fn all() -> BTreeSet<ScriptFlags> {
    let chains = [Chain::Main, Chain::Test, Chain::Testnet4, Chain::Signet, Chain::Regtest];
    let mut sets = BTreeSet::new();
    for network in chains.map(Network::new) {
        let Network { bip65_height, bip66_height, csv_height, segwit_height, .. } = network;
        let exceptions = network.script_flag_exceptions.iter().map(|(block, _)| *block);
        let blocks: Vec<Hash> = exceptions.chain([Hash::default()]).collect();
        for height in [bip65_height, bip66_height, csv_height, segwit_height] {
            for height in [0, height.saturating_sub(1), height, height + 1, u32::MAX] {
                sets.extend(blocks.iter().map(|block| script_flags(&network, height, block)));
            }
        }
    }
    sets
}

#[test]
fn scripts_run_under_three_flags() {
    for flag in [flags::P2SH, flags::WITNESS, flags::TAPROOT] {
        assert!(!flags_allow(ALL & !flag), "{flag:#x}");
    }
    for flag in
        [flags::DERSIG, flags::NULLDUMMY, flags::CHECKLOCKTIMEVERIFY, flags::CHECKSEQUENCEVERIFY]
    {
        assert!(flags_allow(ALL & !flag), "{flag:#x}");
    }
}

#[test]
fn all_kinds_under_each_set_of_flags() {
    let sets = all();
    assert!(sets.contains(&ALL) && sets.len() >= 10, "{sets:x?}");
    let families = families::all();
    let spends: Vec<Spend> =
        families.iter().map(|(_, input)| Spend::new(std::slice::from_ref(input))).collect();
    for flags in sets {
        for (judged, (name, _)) in judge(&spends, flags).iter().zip(&families) {
            let Judged { fast, engine } = judged;
            assert!(engine, "{name}, {flags:#x}");
            let expected = if flags_allow(flags) {
                judged.is_fast()
            } else {
                *fast == FastVerdict::Left(Left::Flags)
            };
            assert!(expected, "{name}, {flags:#x}: {fast:?}");
        }
    }
}

/// Locks that are not met, before and after their opcodes existed.
#[test]
fn locks_before_they_were() {
    for (code, flag) in [
        (OP_CHECKLOCKTIMEVERIFY, flags::CHECKLOCKTIMEVERIFY),
        (OP_CHECKSEQUENCEVERIFY, flags::CHECKSEQUENCEVERIFY),
    ] {
        for wrap in Wrap::SCRIPTS {
            let script = Asm::new().number(0x7fff_ffff).ops(&[code, OP_DROP, OP_1]).0;
            let spend = Spend::run(wrap, script, &[]);
            expect(&[(format!("{code:#x}"), spend.clone(), Expected::Refused)], ALL);
            expect(&[(format!("{code:#x}"), spend, Expected::Valid)], ALL & !flag);
        }
    }
}

/// Witness programs and P2SH in blocks from before they had a meaning, where others could spend
/// them. Such spends are left to the engine, and the fast engine never accepts them.
#[test]
fn spends_of_programs_without_their_flags() {
    let anyone = [
        Spend::run(Wrap::P2wsh, vec![OP_0], &[]),
        Spend::one(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(2), bytes(&public(1))]),
        Spend::run(Wrap::Leaf, vec![OP_0], &[]),
        Spend::run(Wrap::P2sh, vec![OP_0], &[]),
    ];
    for (index, spend) in anyone.iter().enumerate() {
        let judged = |flags| judge(std::slice::from_ref(spend), flags)[0];
        assert!(!judged(ALL).engine && !judged(ALL).is_fast(), "{index}");
        assert!(judged(0).engine && !judged(0).is_fast(), "{index}");
    }
    let before_taproot = judge(&anyone[2..3], ALL & !flags::TAPROOT)[0];
    assert!(before_taproot.engine && !before_taproot.is_fast());
}
