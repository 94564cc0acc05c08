//! Ports that other services use, to which many could be made to connect by false addresses.

use apus_wire::message::Host;

use super::group::Place;

/// Core's list (`IsBadPort`, `doc/p2p-bad-ports.md`), in order.
const BAD_PORTS: [u16; 85] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3306, 3389, 3659, 4045, 5060, 5061, 5432, 5900, 6000, 6566, 6665,
    6666, 6667, 6668, 6669, 6697, 10080, 27017,
];

/// Returns whether an address of IPv4 or IPv6 has the port of another service, where a peer of
/// Bitcoin is unlikely.
pub fn is_bad_port((host, port): &Place) -> bool {
    !matches!(host, Host::TorV3(_)) && BAD_PORTS.binary_search(port).is_ok()
}
