//! The processor: its cores and instructions, and what slows it down.

use apus_node::options::Options;
use apus_node::root::Root;
use secp_lanes::Kernel;

/// Degrees Celsius from which processors begin to slow down, or soon will.
const HOT: f64 = 80.0;
/// The bits that a Raspberry Pi's firmware sets, now and (16 bits higher) since its start.
const PI_BITS: [(u32, &str); 4] = [
    (0, "the voltage is too low"),
    (1, "the clock is capped"),
    (2, "it is throttled"),
    (3, "it is near its highest temperature"),
];

/// The processor.
#[derive(Clone, PartialEq, Debug)]
pub struct Processor {
    /// Number of cores that this process may use.
    pub cores: usize,
    /// How signatures are verified.
    pub kernel: Kernel,
    /// Whether it has instructions for SHA-256.
    pub has_sha: bool,
    /// Whether the machine is a virtual one.
    pub is_virtual: bool,
    /// What slows it down, each as a clause.
    pub slowed: Vec<String>,
}

impl Processor {
    /// Looks at the processor.
    pub fn of(root: &Root, options: &Options) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let kernel = options.scripts.kernel.unwrap_or_else(Kernel::best);
        let info = root.read("/proc/cpuinfo").unwrap_or_default();
        let is_virtual = info.lines().any(|line| {
            line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor")
        });
        Self { cores, kernel, has_sha: has_sha(), is_virtual, slowed: slowed(root) }
    }
}

/// Returns whether the processor has instructions for SHA-256.
fn has_sha() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("sha");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

/// Returns what slows the processor down.
fn slowed(root: &Root) -> Vec<String> {
    let mut slowed = Vec::new();
    let firmware = "/sys/devices/platform/soc/soc:firmware/get_throttled";
    let bits = root.read(firmware).and_then(|text| u32::from_str_radix(&text, 16).ok());
    for (bit, what) in PI_BITS.iter().filter(|_| bits.is_some()) {
        match bits.unwrap_or(0) >> bit & 0x1_0001 {
            0 => {}
            0x1_0000 => slowed.push(format!("since the start of the machine {what} at times")),
            _ => slowed.push(format!("{what} now")),
        }
    }
    let governor = root.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let driver = root.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver");
    // With intel_pstate and amd-pstate the governor of this name raises the clock as well.
    let is_slow = governor.as_deref() == Some("powersave")
        && !driver.is_some_and(|driver| driver.contains("pstate"));
    if is_slow {
        slowed.push("the frequency governor is powersave".to_string());
    }
    let zones = root.names("/sys/class/thermal");
    let degrees = zones.iter().filter(|name| name.starts_with("thermal_zone")).filter_map(|name| {
        let text = root.read(format!("/sys/class/thermal/{name}/temp"))?;
        Some(text.parse::<f64>().ok()? / 1000.0)
    });
    let hottest = degrees.fold(0.0, f64::max);
    if hottest >= HOT {
        slowed.push(format!("it has {hottest:.0} °C"));
    }
    slowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slows_a_processor_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let write = |path: &str, text: &str| {
            let path = root.below(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(slowed(&root).is_empty());
        write("/sys/devices/platform/soc/soc:firmware/get_throttled", "50001\n");
        write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        write("/sys/class/thermal/thermal_zone0/temp", "84500\n");
        write("/sys/class/thermal/cooling_device0/type", "fan\n");
        assert_eq!(
            slowed(&root),
            [
                "the voltage is too low now",
                "since the start of the machine it is throttled at times",
                "the frequency governor is powersave",
                "it has 84 °C",
            ]
        );
        write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
        write("/sys/class/thermal/thermal_zone0/temp", "45000\n");
        write("/sys/devices/platform/soc/soc:firmware/get_throttled", "0\n");
        assert!(slowed(&root).is_empty());
    }
}
