//! What a sync has not checked but taken as valid, for its report.

/// A group of rules that blocks may be spared on somebody's word. All others are always checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleGroup {
    /// Every input's script and its signatures.
    Scripts,
    /// A transaction pays out no more than it spends.
    Amounts,
    /// A coinbase claims no more than subsidy and fees.
    CoinbaseClaims,
    /// A coin is created before it is spent.
    Order,
    /// A coinbase's outputs wait for 100 blocks.
    Maturity,
    /// Lock times relative to the coins that are spent (BIP68).
    RelativeLockTimes,
    /// The limit of signature operations, as far as redeem scripts (BIP16) count.
    P2shSigops,
    /// The limit of signature operations, as far as witness scripts (BIP141) count.
    WitnessSigops,
}

impl RuleGroup {
    /// All that SwiftSync leaves to whoever vouches for the blocks.
    pub const ALL: &'static [Self] = &[
        Self::Scripts,
        Self::Amounts,
        Self::CoinbaseClaims,
        Self::Order,
        Self::Maturity,
        Self::RelativeLockTimes,
        Self::P2shSigops,
        Self::WitnessSigops,
    ];
    /// All that Core's `-assumevalid` leaves out.
    pub const SCRIPTS: &'static [Self] = &[Self::Scripts];

    /// The name in `--json`.
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
        }
    }
}

/// Blocks that were taken as valid without some of the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotChecked {
    /// Height of the first block.
    pub first: u32,
    /// Height of the last block.
    pub last: u32,
    /// What was not checked of them.
    pub rules: &'static [RuleGroup],
}

/// What one run has checked of the blocks that it worked through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    not_checked: Vec<NotChecked>,
}

impl Checked {
    /// A SwiftSync up to `height` that sums outpoints, and checks all rules but the scripts in the
    /// last `recent` blocks.
    pub(super) fn outpoints_alone(height: u32, recent: u32) -> Self {
        let mut checked = Self::default();
        let first_recent = (height + 1).saturating_sub(recent).max(1);
        checked.push(NotChecked { first: 1, last: first_recent - 1, rules: RuleGroup::ALL });
        checked.push(NotChecked { first: first_recent, last: height, rules: RuleGroup::SCRIPTS });
        checked
    }

    /// Notes a block that was connected in order, in the place of whatever stood at its height and
    /// above, which was taken back.
    pub(super) fn note_connected(&mut self, height: u32, with_scripts: bool) {
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

    /// What was not checked, by height, no two ranges overlapping; nothing if every rule was.
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
        let mut checked = Checked::outpoints_alone(1000, 288);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 1000, 1)]);
        checked.note_connected(1001, false);
        checked.note_connected(1002, true);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 1001, 1)]);
        // A reorganisation to a branch that is checked.
        checked.note_connected(990, true);
        checked.note_connected(991, true);
        assert_eq!(ranges(&checked), [(1, 712, 8), (713, 989, 1)]);
        assert_eq!(ranges(&Checked::outpoints_alone(20, 288)), [(1, 20, 1)]);
        assert_eq!(ranges(&Checked::outpoints_alone(20, 0)), [(1, 20, 8)]);
        let mut in_order = Checked::default();
        (1..=9).for_each(|height| in_order.note_connected(height, height > 4));
        assert_eq!(ranges(&in_order), [(1, 4, 1)]);
    }
}
