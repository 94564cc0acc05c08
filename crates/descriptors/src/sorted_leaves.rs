//! `sortedmulti_a()`, which `miniscript` does not know: it reads `multi_a()`, whose keys are sorted
//! once they are derived.

use bitcoin::PublicKey;
use bitcoin::key::XOnlyPublicKey;
use miniscript::descriptor::{TapTree, Tr};
use miniscript::miniscript::decode::Terminal;
use miniscript::{Descriptor as Miniscript, Miniscript as Leaf, Tap, Threshold};

const SORTED: &str = "sortedmulti_a(";
const UNSORTED: &str = "multi_a(";
/// Marks a sorted leaf where its keys are only words: no key begins with it.
const MARK: char = '~';

/// Returns an expression that `miniscript` reads, and which leaves of its tree are sorted; `None`
/// if none is. Where `sortedmulti_a()` is inside another function, it stays, and is refused.
pub fn unsorted(expression: &str) -> Option<(String, Vec<bool>)> {
    let mut parens = 0;
    let mut text = String::new();
    let mut sorted = Vec::new();
    let mut is_key = true;
    let mut rest = expression.strip_prefix("tr(")?;
    while let Some(next) = rest.chars().next() {
        if !is_key && parens == 0 && !['{', '}', ',', ')'].contains(&next) {
            sorted.push(rest.starts_with(SORTED));
            // The rest of the leaf follows.
            let skipped = if rest.starts_with(SORTED) { SORTED.len() - UNSORTED.len() } else { 0 };
            rest = &rest[skipped..];
            let end = rest.find('(').map_or(rest.len(), |at| at + 1);
            parens = 1;
            text += &rest[..end];
            rest = &rest[end..];
            continue;
        }
        match next {
            '(' => parens += 1,
            ')' => parens -= 1,
            ',' => is_key = false,
            _ => {}
        }
        text.push(next);
        rest = &rest[next.len_utf8()..];
    }
    sorted.contains(&true).then(|| (format!("tr({text}"), sorted))
}

/// Returns an output whose leaves have their keys sorted.
pub fn sort(derived: Miniscript<PublicKey>, sorted: &[bool]) -> Option<Miniscript<PublicKey>> {
    let Miniscript::Tr(tr) = derived else { return None };
    let mut trees: Vec<(u8, TapTree<PublicKey>)> = Vec::new();
    for (leaf, is_sorted) in tr.leaves().zip(sorted) {
        let leaf_sorted = if *is_sorted {
            sorted_leaf(leaf.miniscript())?
        } else {
            leaf.miniscript().as_ref().clone()
        };
        trees.push((leaf.depth(), TapTree::leaf(leaf_sorted)));
        while let [.., (left, _), (right, _)] = &trees[..]
            && left == right
        {
            let (depth, right) = trees.pop()?;
            let (_, left) = trees.pop()?;
            trees.push((depth - 1, TapTree::combine(left, right).ok()?));
        }
    }
    let (_, tree) = trees.pop()?;
    Some(Miniscript::Tr(Tr::new(*tr.internal_key(), Some(tree)).ok()?))
}

fn sorted_leaf(leaf: &Leaf<PublicKey, Tap>) -> Option<Leaf<PublicKey, Tap>> {
    let Terminal::MultiA(threshold) = leaf.as_inner() else { return None };
    let mut keys = threshold.data().to_vec();
    keys.sort_by_key(|key| XOnlyPublicKey::from(key.inner).serialize());
    Some(Leaf::multi_a(Threshold::new(threshold.k(), keys).ok()?))
}

/// Returns an expression that `miniscript` reads with keys as words, in which sorted leaves are
/// marked.
pub fn marked(expression: &str) -> String {
    let mut parts = expression.split(SORTED);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (threshold, keys) = part.split_once(',').unwrap_or((part, ""));
        text += &format!("{UNSORTED}{threshold},{MARK}{keys}");
    }
    text
}

/// Returns the expression that was marked.
pub fn unmarked(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        if let Some(at) = out.rfind(UNSORTED) {
            out.replace_range(at..at + UNSORTED.len(), SORTED);
        }
        out += part;
    }
    out
}
