//! The rules that a sync has assumed to hold without checking them, for its report.

use std::ops::Range;

/// A group of rules that may be left unchecked in blocks that are assumed valid. A report counts
/// every rule outside these groups as checked.
///
/// A SwiftSync that sums only outpoints has no coins, so below its last blocks it checks nothing of
/// `BlockSpends` and `TxScripts`: each rule on coins belongs to a group here, which names it as the
/// list in apus-consensus does. `apus/tests/layers/rule_list.rs` compares the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleGroup {
    /// Each input's script and signatures are valid (`TxScripts`).
    Scripts,
    /// A transaction pays out no more than it spends (`input_amounts_in_range`,
    /// `inputs_cover_outputs`, `fee_in_range`, `accumulated_fees_in_range`).
    Amounts,
    /// A coinbase claims no more than subsidy and fees (`coinbase_amount_in_limit`).
    CoinbaseClaims,
    /// A coin is created before it is spent (`missing_or_spent`). That it is created, and spent
    /// once, is proved.
    Order,
    /// A coinbase's outputs are not spent for 100 blocks (`coinbase_mature`).
    Maturity,
    /// Lock times relative to the spent coins have passed (BIP68, `sequence_locks`).
    RelativeLockTimes,
    /// Signature operations in redeem scripts count towards their limit (BIP16,
    /// `sigop_cost_in_limit`).
    P2shSigops,
    /// Signature operations in witness scripts count towards their limit (BIP141,
    /// `sigop_cost_in_limit`).
    WitnessSigops,
    /// The block commits to the witnesses (BIP141, `witness_committed`), or there
    /// are none.
    WitnessCommitments,
    /// A block has at most 4,000,000 weight units (BIP141, `weight_in_limit`). That it has at most
    /// 1,000,000 bytes without witnesses is checked.
    BlockWeight,
}

impl RuleGroup {
    /// The groups that SwiftSync leaves unchecked in blocks that are assumed valid and were
    /// downloaded without their witnesses.
    pub const STRIPPED: &'static [Self] = &[
        Self::Scripts,
        Self::Amounts,
        Self::CoinbaseClaims,
        Self::Order,
        Self::Maturity,
        Self::RelativeLockTimes,
        Self::P2shSigops,
        Self::WitnessSigops,
        Self::WitnessCommitments,
        Self::BlockWeight,
    ];
    /// The groups that SwiftSync leaves unchecked in other blocks that are assumed valid: all but
    /// the last two, which are about witnesses.
    pub const ALL: &'static [Self] = Self::STRIPPED.split_at(Self::STRIPPED.len() - 2).0;
    /// The group that Core's `-assumevalid` leaves unchecked.
    pub const SCRIPTS: &'static [Self] = &[Self::Scripts];

    /// Returns the group's name in the output of `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scripts => "scripts",
            Self::Amounts => "amounts",
            Self::CoinbaseClaims => "coinbase_claims",
            Self::Order => "order",
            Self::Maturity => "maturity",
            Self::RelativeLockTimes => "relative_lock_times",
            Self::P2shSigops => "p2sh_sigops",
            Self::WitnessSigops => "witness_sigops",
            Self::WitnessCommitments => "witness_commitments",
            Self::BlockWeight => "block_weight",
        }
    }
}

/// A range of blocks that were assumed valid without checking some of the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotChecked {
    /// Height of the first block.
    pub first: u32,
    /// Height of the last block.
    pub last: u32,
    /// The rules that were not checked.
    pub rules: &'static [RuleGroup],
}

/// The rules that one run has checked for the blocks that it processed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    not_checked: Vec<NotChecked>,
}

impl Checked {
    /// Returns the rules that a SwiftSync up to `height` checks if its sums are of outpoints: for
    /// the last `recent` blocks all but the scripts, for the heights in `stripped` all but
    /// [`RuleGroup::STRIPPED`], and for the others all but [`RuleGroup::ALL`].
    pub fn outpoints_alone(height: u32, recent: u32, stripped: Range<u32>) -> Self {
        let mut checked = Self::default();
        let first_recent = (height + 1).saturating_sub(recent).max(1);
        let stripped = if stripped.is_empty() { 1..1 } else { stripped };
        for (blocks, rules) in [
            (1..stripped.start, RuleGroup::ALL),
            (stripped.clone(), RuleGroup::STRIPPED),
            (stripped.end..first_recent, RuleGroup::ALL),
            (first_recent..height + 1, RuleGroup::SCRIPTS),
        ] {
            checked.push(NotChecked { first: blocks.start, last: blocks.end - 1, rules });
        }
        checked
    }

    /// Records that a block was connected in order. Blocks recorded at its height and above were
    /// disconnected before, and are removed.
    pub fn note_connected(&mut self, height: u32, with_scripts: bool) {
        self.not_checked.retain(|blocks| blocks.first < height);
        if let Some(blocks) = self.not_checked.last_mut() {
            blocks.last = blocks.last.min(height - 1);
        }
        if !with_scripts {
            self.push(NotChecked { first: height, last: height, rules: RuleGroup::SCRIPTS });
        }
    }

    fn push(&mut self, blocks: NotChecked) {
        match self.not_checked.last_mut() {
            _ if blocks.last < blocks.first => {}
            Some(last) if last.last + 1 == blocks.first && last.rules == blocks.rules => {
                last.last = blocks.last;
            }
            _ => self.not_checked.push(blocks),
        }
    }

    /// Returns the ranges of blocks with unchecked rules, in order of height and without overlaps;
    /// empty if every rule was checked.
    pub fn not_checked(&self) -> &[NotChecked] {
        &self.not_checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(checked: &Checked) -> Vec<(u32, u32, usize)> {
        let blocks = checked.not_checked().iter();
        blocks.map(|blocks| (blocks.first, blocks.last, blocks.rules.len())).collect()
    }

    #[test]
    fn blocks_connected_after_a_swiftsync_join_its_last_ones() {
        let mut checked = Checked::outpoints_alone(1000, 288, 0..0);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 1000, 1)]);
        checked.note_connected(1001, false);
        checked.note_connected(1002, true);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 1001, 1)]);
        // A reorganisation to a branch whose scripts are checked.
        checked.note_connected(990, true);
        checked.note_connected(991, true);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 989, 1)]);
        assert_eq!(ranges(&Checked::outpoints_alone(20, 288, 481..481)), [(1, 20, 1)]);
        assert_eq!(ranges(&Checked::outpoints_alone(20, 0, 0..0)), [(1, 20, 8)]);
        // Blocks without witnesses leave more rules unchecked.
        let stripped = |blocks| ranges(&Checked::outpoints_alone(1000, 288, blocks));
        assert_eq!(stripped(1..400), [(1, 399, 10), (400, 712, 8), (713, 1000, 1)]);
        assert_eq!(stripped(300..713), [(1, 299, 8), (300, 712, 10), (713, 1000, 1)]);
        let mut in_order = Checked::default();
        (1..=9).for_each(|height| in_order.note_connected(height, height > 4));
        assert_eq!(ranges(&in_order), [(1, 4, 1)]);
    }
}
