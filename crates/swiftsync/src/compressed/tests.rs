use apus_testdata::Random;

use super::layout::{CONTEXTS, TOKENS};
use super::model::{Census, Model};
use super::{OUTPUTS_MAX, token};

#[test]
fn tables_of_any_shape_are_read_as_they_were_written() {
    let mut random = Random(17);
    for _ in 0..200 {
        let mut census = Census::default();
        for _ in 0..random.below(2_000) {
            let contexts = 1 + random.below(CONTEXTS as u64);
            let tokens = 1 + random.below(68);
            let most = 1 << random.below(9);
            for _ in 0..random.below(most) {
                census.count(random.below(contexts) as usize, random.below(tokens) as usize);
            }
        }
        let model = Model::new(&census);
        let mut bytes = Vec::new();
        model.write(&mut bytes);
        assert!(Model::read(&bytes).unwrap() == model);
        assert!(Model::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(Model::read(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn tokens_and_their_ranges() {
    let mut next = 0;
    for token in 0..TOKENS {
        let (least, bits) = token::range(token);
        assert_eq!(least, next);
        for value in [least, least + (1 << bits) - 1] {
            assert_eq!(token::token(value), token);
        }
        assert!(token::class(token) < 8 && token::weight(token) < 256 && bits < 16);
        next = least + (1 << bits);
    }
    assert_eq!(next, 1 << token::VALUE_BITS);
    assert!(next > OUTPUTS_MAX);
}
