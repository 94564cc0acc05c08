use apus_hash::{Hash, sha256d_pairs};

/// A merkle root, and whether another list of hashes may have the same root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MerkleRoot {
    /// The root; zero for an empty list.
    pub root: Hash,
    /// Whether two equal neighbours were paired at some level (CVE-2012-2459; Core's `mutated`).
    pub mutated: bool,
}

/// Computes the merkle root of `hashes`, which are overwritten (Core's `ComputeMerkleRoot`).
pub fn merkle_root(hashes: &mut Vec<Hash>) -> MerkleRoot {
    let mut mutated = false;
    while hashes.len() > 1 {
        mutated |= hashes.chunks_exact(2).any(|pair| pair[0] == pair[1]);
        let parents = hashes.len().div_ceil(2);
        if hashes.len() % 2 == 1 {
            hashes.extend_from_within(hashes.len() - 1..);
        }
        sha256d_pairs(hashes);
        hashes.truncate(parents);
    }
    MerkleRoot { root: hashes.first().copied().unwrap_or_default(), mutated }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_tail_has_the_same_root_and_is_seen() {
        let leaf = |i: u8| Hash([i; 32]);
        let honest = merkle_root(&mut vec![leaf(1), leaf(2), leaf(3)]);
        let repeated = merkle_root(&mut vec![leaf(1), leaf(2), leaf(3), leaf(3)]);
        assert_eq!(honest.root, repeated.root);
        assert!(!honest.mutated && repeated.mutated);
        assert_eq!(merkle_root(&mut vec![leaf(9)]), MerkleRoot { root: leaf(9), mutated: false });
        assert!(merkle_root(&mut vec![]).root.is_zero());
    }
}
