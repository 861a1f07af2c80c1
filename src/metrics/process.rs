//! Metrics of this process from the system.

use super::catalogue::Process;

/// Brings the metrics up to date. Values that the system does not provide are left out.
pub(super) fn refresh(process: &Process) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(stat) = Stat::parse(&stat) {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        (process.cpu)(&[]).set(stat.ticks / ticks);
        let page = rustix::param::page_size() as f64;
        (process.memory)(&[]).set(stat.resident_pages * page);
        let system = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        if let Some(boot) = boot_time(&system) {
            (process.start)(&[]).set(boot + stat.start / ticks);
        }
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        (process.tasks)(&[]).set(runtime.metrics().num_alive_tasks() as f64);
    }
}

/// The used fields of /proc/self/stat.
#[derive(PartialEq, Debug)]
struct Stat {
    /// CPU time of the kernel and the process, in clock ticks.
    ticks: f64,
    /// Start time in clock ticks since boot.
    start: f64,
    resident_pages: f64,
}

impl Stat {
    /// Parses the fields after the command's name, which may contain anything; the first of them is the third.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            ticks: field(14)? + field(15)?,
            start: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_time(system: &str) -> Option<f64> {
    let line = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_an_awkward_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 777 4096 3 1";
        let stat = Stat {
            ticks: 300.0,
            start: 777.0,
            resident_pages: 3.0,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (a) S 1"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\nx"), Some(1.7e9));
        assert_eq!(boot_time("cpu 1"), None);
    }
}
