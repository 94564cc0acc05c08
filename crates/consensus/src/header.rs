use apus_hash::Hash;
use apus_wire::{Header, Network};

use super::arith::U256;
use super::error::{RuleClass, RuleError};

/// A block and its ancestors, as far as the rules for the header of its child need them.
pub trait Ancestry {
    /// Returns the height of the block itself.
    fn height(&self) -> u32;

    /// Returns the facts about the ancestor at `height`; at [`Ancestry::height`], which `height`
    /// must not exceed, those about the block itself.
    fn at(&self, height: u32) -> HeaderFacts;

    /// Returns the facts about the block itself, its parent, and so on to the genesis block.
    fn ancestors(&self) -> impl Iterator<Item = HeaderFacts> {
        (0..=self.height()).rev().map(|height| self.at(height))
    }

    /// Returns the median time past of the block ([`median_time_past`]).
    fn median_time_past(&self) -> i64 {
        median_time_past(self)
    }
}

/// The parts of a header that the rules of difficulty and time need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderFacts {
    /// The target in compact form.
    pub bits: u32,
    /// The time in seconds since 1970.
    pub time: u32,
}

/// Seconds by which a header may be ahead of our clock (Core's `MAX_FUTURE_BLOCK_TIME`).
pub const FUTURE_SECONDS_MAX: i64 = 2 * 60 * 60;

/// Seconds by which, under BIP94, the first block of a difficulty period may be earlier than the
/// last block of the period before (Core's `MAX_TIMEWARP`).
const TIMEWARP_SECONDS_MAX: i64 = 600;

/// The number of blocks that the median time past is taken over (Core's `nMedianTimeSpan`).
const MEDIAN_TIME_SPAN: usize = 11;

/// A header's hash MUST meet the target that it claims (Core's `CheckBlockHeader`).
///
/// # Errors
/// `high-hash`
pub fn check_header(header: &Header, hash: &Hash, network: &Network) -> Result<(), RuleError> {
    if proof_of_work(hash, header.bits, network) {
        Ok(())
    } else {
        Err(RuleError::header("high-hash", "proof of work failed"))
    }
}

/// Checks the rules that need a header's ancestors and our clock, in order (Core's
/// `ContextualCheckBlockHeader`). `now` is in seconds since 1970.
///
/// # Errors
/// `bad-diffbits`, `time-too-old`, `time-timewarp-attack`, `time-too-new`, `bad-version(…)`
pub fn check_header_in_context(
    header: &Header,
    network: &Network,
    parent: &impl Ancestry,
    now: i64,
) -> Result<(), RuleError> {
    difficulty(header, network, parent)?;
    time_after_median(header, parent)?;
    no_timewarp(header, network, parent)?;
    time_not_in_future(header, now)?;
    version(header, network, parent.height() + 1)
}

/// A header's target MUST be the one that follows from its ancestors.
fn difficulty(header: &Header, network: &Network, parent: &impl Ancestry) -> Result<(), RuleError> {
    if header.bits == next_work_required(network, parent, header.time) {
        Ok(())
    } else {
        Err(RuleError::header("bad-diffbits", "incorrect proof of work"))
    }
}

/// A header's time MUST be later than the median time of the eleven blocks before it.
fn time_after_median(header: &Header, parent: &impl Ancestry) -> Result<(), RuleError> {
    if i64::from(header.time) > parent.median_time_past() {
        Ok(())
    } else {
        Err(RuleError::header("time-too-old", "block's timestamp is too early"))
    }
}

/// Under BIP94, the first header of a difficulty period MUST NOT be more than ten minutes earlier
/// than its parent.
fn no_timewarp(
    header: &Header,
    network: &Network,
    parent: &impl Ancestry,
) -> Result<(), RuleError> {
    if !network.enforce_bip94
        || !(parent.height() + 1).is_multiple_of(network.difficulty_adjustment_interval())
    {
        return Ok(());
    }
    let earliest = i64::from(parent.at(parent.height()).time) - TIMEWARP_SECONDS_MAX;
    if i64::from(header.time) < earliest {
        return Err(RuleError::header(
            "time-timewarp-attack",
            "block's timestamp is too early on diff adjustment block",
        ));
    }
    Ok(())
}

/// A header's time MUST NOT be more than two hours ahead of our clock. The header may become valid
/// later.
fn time_not_in_future(header: &Header, now: i64) -> Result<(), RuleError> {
    if i64::from(header.time) > now.saturating_add(FUTURE_SECONDS_MAX) {
        return Err(RuleError::new(
            RuleClass::TimeFuture,
            "time-too-new",
            "block timestamp too far in the future",
        ));
    }
    Ok(())
}

/// A header's version MUST be at least 2 once BIP34 is active, 3 once BIP66 is, 4 once BIP65 is.
fn version(header: &Header, network: &Network, height: u32) -> Result<(), RuleError> {
    let least = [(2, network.bip34_height), (3, network.bip66_height), (4, network.bip65_height)];
    if least.iter().any(|&(least, from)| header.version < least && height >= from) {
        let version = header.version;
        return Err(RuleError::header(
            format!("bad-version(0x{version:08x})"),
            format!("rejected nVersion=0x{version:08x} block"),
        ));
    }
    Ok(())
}

/// Returns whether `hash` meets the compact target, which must itself be positive, fit 256 bits and
/// be no easier than the network's limit (Core's `CheckProofOfWork`).
pub fn proof_of_work(hash: &Hash, bits: u32, network: &Network) -> bool {
    let target = U256::from_compact(bits);
    !target.negative
        && !target.overflow
        && target.value != U256::ZERO
        && target.value <= U256::from_le_bytes(&network.pow_limit)
        && U256::from_le_bytes(&hash.0) <= target.value
}

/// Returns the compact target that a child of `parent` with the time `header_time` must have
/// (Core's `GetNextWorkRequired`).
pub fn next_work_required(network: &Network, parent: &impl Ancestry, header_time: u32) -> u32 {
    let interval = network.difficulty_adjustment_interval();
    let last = parent.at(parent.height());
    if (parent.height() + 1).is_multiple_of(interval) {
        return retarget(network, parent, interval);
    }
    if !network.pow_allow_min_difficulty {
        return last.bits;
    }
    let limit_bits = U256::from_le_bytes(&network.pow_limit).to_compact();
    if i64::from(header_time) > i64::from(last.time) + 2 * i64::from(network.pow_target_spacing) {
        return limit_bits;
    }
    let heights = (0..=parent.height()).rev();
    heights
        .zip(parent.ancestors())
        .find(|(height, block)| height.is_multiple_of(interval) || block.bits != limit_bits)
        .map_or(limit_bits, |(_, block)| block.bits)
}

/// Returns whether a block at `height` may have the compact target `bits` after a parent with
/// `parent_bits`, without regard to block times (Core's `PermittedDifficultyTransition`).
pub fn permitted_difficulty_transition(
    network: &Network,
    height: u32,
    parent_bits: u32,
    bits: u32,
) -> bool {
    if network.pow_allow_min_difficulty {
        return true;
    }
    if !height.is_multiple_of(network.difficulty_adjustment_interval()) {
        return bits == parent_bits;
    }
    let timespan = network.pow_target_timespan;
    let after = |actual: u32| retargeted(network, parent_bits, actual);
    let target = U256::from_compact(bits).value;
    let [least, most] =
        [timespan / 4, timespan * 4].map(|actual| U256::from_compact(after(actual)).value);
    (least..=most).contains(&target)
}

/// Returns the compact target after a difficulty period that took `actual` seconds at the target
/// `bits`.
fn retargeted(network: &Network, bits: u32, actual: u32) -> u32 {
    let limit = U256::from_le_bytes(&network.pow_limit);
    let scaled = U256::from_compact(bits).value.wrapping_mul(actual);
    let target = scaled.checked_div(U256::from(network.pow_target_timespan)).unwrap_or(limit);
    target.min(limit).to_compact()
}

/// Returns the compact target of the first block after a difficulty period, of which `parent` is
/// the last block (Core's `CalculateNextWorkRequired`).
fn retarget(network: &Network, parent: &impl Ancestry, interval: u32) -> u32 {
    let last = parent.at(parent.height());
    if network.pow_no_retargeting {
        return last.bits;
    }
    let first = parent.at(parent.height() + 1 - interval);
    let timespan = network.pow_target_timespan;
    let actual = (i64::from(last.time) - i64::from(first.time))
        .clamp(i64::from(timespan / 4), i64::from(timespan) * 4) as u32;
    // The first block of a period cannot use the exception for minimum difficulty, so its target is
    // the real one (BIP94).
    let bits = if network.enforce_bip94 { first.bits } else { last.bits };
    retargeted(network, bits, actual)
}

/// Returns the median of the times of a block and its last ten ancestors, or of as many as there
/// are (BIP113; Core's `GetMedianTimePast`).
pub fn median_time_past<A: Ancestry + ?Sized>(block: &A) -> i64 {
    let mut times = [0; MEDIAN_TIME_SPAN];
    let mut count = 0;
    for (time, block) in times.iter_mut().zip(block.ancestors()) {
        *time = block.time;
        count += 1;
    }
    let times = &mut times[..count];
    times.sort_unstable();
    i64::from(times[times.len() / 2])
}
