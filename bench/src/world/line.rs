/// Returns how many bytes a second flow from each peer, if each could send `wishes` and our line
/// carries `capacity`: no peer gets more than it can send, and all others get the same (max-min
/// fairness, which is what TCP comes to for equal round trips).
pub fn share(wishes: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    let mut rates = vec![0.0; wishes.len()];
    let mut left = capacity;
    for (at, index) in order.iter().enumerate() {
        let equal = left / (order.len() - at) as f64;
        rates[*index] = wishes[*index].min(equal);
        left -= rates[*index];
    }
    rates
}
