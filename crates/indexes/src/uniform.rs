//! A sort for keys that are hashes, and so are spread evenly between the least and the greatest.

use std::cmp::Ordering;

/// Sorts `items` by `compare`. `key` is the start of what is compared: items in order have keys in
/// order. The memory of `sorted`, whose content is replaced, serves the next sort.
///
/// Each item goes to its place but for a few others at once, in place of a dozen comparisons. If
/// keys are not spread evenly, this takes as long as a usual sort.
pub fn sort_uniform<T: Copy>(
    items: &mut Vec<T>,
    sorted: &mut Vec<T>,
    key: impl Fn(&T) -> u64,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let keys = || items.iter().map(&key);
    let (Some(least), Some(greatest)) = (keys().min(), keys().max()) else { return };
    // The number of buckets is between half the number of items and the number of items.
    let span = greatest - least;
    let bits = (u64::BITS - span.leading_zeros()).saturating_sub(items.len().ilog2());
    let bucket = |item: &T| ((key(item) - least) >> bits) as usize;
    let mut ends = vec![0_u32; (span >> bits) as usize + 1];
    items.iter().for_each(|item| ends[bucket(item)] += 1);
    let mut start = 0;
    for end in &mut ends {
        (start, *end) = (start + *end, start);
    }
    sorted.clone_from(items);
    for item in &*items {
        let end = &mut ends[bucket(item)];
        sorted[*end as usize] = *item;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        let bucket = &mut sorted[start..end as usize];
        if bucket.len() > 1 {
            bucket.sort_unstable_by(&compare);
        }
        start = end as usize;
    }
    std::mem::swap(items, sorted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_sorted_however_their_keys_are_spread() {
        let mut sorted = Vec::new();
        for count in [0_u64, 1, 2, 3, 100, 4000] {
            for (step, low) in [(0x9e37_79b9_7f4a_7c15, 0), (1, 7), (0, 5), (u64::MAX / 3, 1)] {
                let item = |n: u64| (n.wrapping_mul(step).wrapping_add(low), n % 5);
                let mut items: Vec<(u64, u64)> = (0..count).rev().map(item).collect();
                // One of them is far away from all others.
                items.extend((count % 2 == 0).then_some((u64::MAX, 1)));
                let mut expected = items.clone();
                expected.sort_unstable();
                sort_uniform(&mut items, &mut sorted, |item| item.0, |a, b| a.cmp(b));
                assert!(items == expected, "{count} items, step {step}");
            }
        }
    }
}
