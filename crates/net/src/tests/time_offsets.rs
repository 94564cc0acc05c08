use crate::TimeOffsets;

/// Adds these offsets, and returns after which of them there were warnings.
fn warnings(offsets: &[i64]) -> Vec<usize> {
    let mut all = TimeOffsets::default();
    (1..).zip(offsets).filter_map(|(number, offset)| all.add(*offset).map(|_| number)).collect()
}

/// Core's unit tests have the same limits: five peers, ten minutes, the last fifty.
#[test]
fn the_median_of_five_peers_says_that_our_clock_is_wrong() {
    let none: Vec<usize> = Vec::new();
    assert_eq!(warnings(&[3600; 4]), none, "too few");
    assert_eq!(warnings(&[3600; 5]), [5]);
    assert_eq!(warnings(&[-3600; 9]), [5], "once");
    assert_eq!(warnings(&[600; 9]), none);
    assert_eq!(warnings(&[601; 5]), [5]);
    assert_eq!(warnings(&[-601; 5]), [5]);
    assert_eq!(warnings(&[i64::MIN, i64::MAX, 0, 0, 0]), none, "the median counts");
    assert_eq!(warnings(&[i64::MIN; 5]), [5]);
    // The upper median of six.
    assert_eq!(warnings(&[0, 0, 0, 900, 900, 900]), [6]);
    // Fifty right clocks take the place of those before, and then there may be a new warning.
    let [wrong, right] = [[3600; 50], [0; 50]];
    assert_eq!(warnings(&[wrong, right, wrong].concat()), [5, 125]);
}

#[test]
fn a_warning_says_which_clock_is_behind() {
    let warning = |offset| {
        let mut all = TimeOffsets::default();
        (0..5).find_map(|_| all.add(offset)).unwrap()
    };
    assert!(warning(3600).contains("is 60 minutes behind the clocks"), "{}", warning(3600));
    assert!(warning(-7200).contains("is 120 minutes ahead of the clocks"), "{}", warning(-7200));
}
