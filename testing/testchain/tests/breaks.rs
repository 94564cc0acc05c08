//! Bitcoin Core refuses every broken block for the reason given, and accepts its sound twin.

mod common;

use std::collections::HashSet;

use apus_testchain::block::encode_block;
use apus_testchain::{Break, Builder, Chain, Spec};
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::Hash;
use bitcoinkernel::{BlockValidationResult, ValidationMode};
use common::Judge;

fn judge_of(chain: &Chain) -> Judge {
    let judge = Judge::new();
    chain.blocks().for_each(|block| drop(judge.process(block)));
    assert_eq!(judge.tip(), chain.tip().to_byte_array());
    judge
}

fn class_of(rule: Break) -> BlockValidationResult {
    let reason = rule.reason();
    match reason {
        "time-too-new" => BlockValidationResult::TimeFuture,
        "prev-blk-not-found" => BlockValidationResult::MissingPrev,
        "high-hash" | "bad-diffbits" | "time-too-old" => BlockValidationResult::InvalidHeader,
        _ if reason.starts_with("bad-version") => BlockValidationResult::InvalidHeader,
        "bad-txnmrklroot"
        | "bad-txns-duplicate"
        | "bad-witness-nonce-size"
        | "bad-witness-merkle-match"
        | "unexpected-witness" => BlockValidationResult::Mutated,
        _ => BlockValidationResult::Consensus,
    }
}

/// Returns whether Core's log names `reason` as the one for which it refused a block.
fn names(log: &str, reason: &str) -> bool {
    let said = ["AcceptBlock FAILED (", "Block validation error: "];
    said.iter().any(|said| {
        log.match_indices(said).any(|(at, said)| {
            let rest = &log[at + said.len()..];
            rest.strip_prefix(reason).is_some_and(|rest| rest.starts_with([',', ')', '\n']))
        })
    })
}

#[test]
fn core_refuses_every_broken_block() {
    let chain = Chain::new(Spec::small(1));
    let judge = judge_of(&chain);
    let mut wrong = Vec::new();
    for &rule in Break::ALL {
        let broken = chain.broken(rule);
        let verdict = judge.process(&broken.block);
        let refused = verdict.mode == Some(ValidationMode::Invalid)
            && verdict.result == Some(class_of(rule))
            && names(&verdict.log, broken.reason)
            && judge.tip() == chain.tip().to_byte_array();
        if !refused {
            wrong.push(format!("{rule:?} {broken:.0?} {verdict:?}", broken = broken.reason));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All sound blocks have the same height, so each is followed by enough empty ones to have more
/// work than the one before.
#[test]
fn core_accepts_every_sound_block() {
    let chain = Chain::new(Spec::small(1));
    let judge = judge_of(&chain);
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for &rule in Break::ALL {
        let broken = chain.broken(rule);
        let sound: bitcoin::Block = deserialize(&broken.sound).unwrap();
        assert_ne!(broken.block, broken.sound);
        if !seen.insert(sound.block_hash()) {
            continue;
        }
        judge.process(&broken.sound);
        let mut parent = chain.parent(chain.height()).child(&sound);
        while judge.height() >= parent.height as i32 && judge.tip() != parent.hash.to_byte_array() {
            let block = Builder::block_on(&parent).finish();
            let verdict = judge.process(&encode_block(&block));
            parent = parent.child(&block);
            if verdict.mode == Some(ValidationMode::Invalid) {
                wrong.push(format!("{rule:?} {verdict:?}"));
                break;
            }
        }
        if judge.tip() != parent.hash.to_byte_array() {
            wrong.push(format!("{rule:?}: not connected"));
        }
    }
    assert!(seen.len() > 50, "nearly all sound blocks are the same: {} differ", seen.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_can_be_broken_on_other_chains() {
    let small = Spec { busy_blocks: 20, busy_bytes: 40_000, ..Spec::small(77) };
    let chain = Chain::new(small).fork(160, 5, 3);
    let judge = judge_of(&chain);
    for &rule in Break::ALL {
        let broken = chain.broken(rule);
        let verdict = judge.process(&broken.block);
        assert!(names(&verdict.log, broken.reason), "{rule:?} {verdict:?}");
    }
}
