//! What processes have used, as the kernel counts it in `/proc`.

use std::fs;

use anyhow::{Context as _, ensure};

/// The unit of `/proc/<pid>/stat`: USER_HZ, a part of the kernel's interface that is 100 wherever we run.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process whose use of the processor is of interest.
#[derive(Clone, Debug)]
pub struct Watched {
    pub name: String,
    pub pid: u32,
    /// Whether its children count, those that have ended included: Postgres has one for each session.
    pub family: bool,
}

/// Processor time in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    own: u64,
    /// Of children that have ended and were waited for.
    ended_children: u64,
}

/// Whether this system has what is read here.
pub fn check() -> anyhow::Result<()> {
    let there = fs::read_to_string("/proc/self/stat").is_ok_and(|text| parse_stat(&text).is_some());
    ensure!(there, "/proc/self/stat cannot be read: processor time is measured on Linux only");
    Ok(())
}

/// Processor time of a process so far, user and system, in seconds.
pub fn cpu_seconds(watched: &Watched) -> anyhow::Result<f64> {
    let ticks = ticks(watched.pid).with_context(|| {
        format!("the processor time of {} (process {}) cannot be read", watched.name, watched.pid)
    })?;
    let mut sum = ticks.own;
    if watched.family {
        sum += ticks.ended_children;
        // One that ends between the two readings is counted in the next sample.
        sum += children(watched.pid)?.into_iter().filter_map(self::ticks).map(|child| child.own).sum::<u64>();
    }
    Ok(sum as f64 / TICKS_PER_SECOND)
}

/// Processor time of this very process, in seconds.
pub fn own_cpu_seconds() -> anyhow::Result<f64> {
    cpu_seconds(&Watched { name: "this process".to_owned(), pid: std::process::id(), family: false })
}

/// The most memory that a process has had in use since its start, in bytes; without what it has shared or mapped and never
/// touched.
pub fn peak_memory_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    parse_bytes(&status, "VmHWM:").with_context(|| format!("{path} has no VmHWM"))
}

/// The memory that a process has in use now, in bytes, counted in the same way.
pub fn memory_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    parse_bytes(&status, "VmRSS:").with_context(|| format!("{path} has no VmRSS"))
}

fn ticks(pid: u32) -> Option<Ticks> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// The name of the command stands in parentheses and may hold any character, parentheses included: what follows the last
/// one is numbers only.
fn parse_stat(text: &str) -> Option<Ticks> {
    let (_, after_name) = text.rsplit_once(')')?;
    // The first field here is the third of proc(5), the state; utime is the 14th.
    let mut fields = after_name.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (utime, stime, cutime, cstime) = (next()?, next()?, next()?, next()?);
    Some(Ticks { own: utime + stime, ended_children: cutime + cstime })
}

fn parse_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_may_hold_spaces_and_parentheses() {
        for name in ["bongsu", "postgres: a (b) c", ") 1 2 3 (", ""] {
            let line =
                format!("77 ({name}) S 1 77 77 0 -1 4194560 900 80 7 6 250 50 30 12 20 0 1 0 99 1000 200");
            assert_eq!(parse_stat(&line), Some(Ticks { own: 300, ended_children: 42 }), "{name}");
        }
    }

    #[test]
    fn what_is_no_stat_line_is_none() {
        for text in ["", "77", "77 (x)", "77 (x) S 1 77 77 0 -1 4194560 900 80 7 6 250 50 30", "1 (x) S a b"]
        {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(parse_bytes(status, "VmHWM:"), Some(2_097_152));
        assert_eq!(parse_bytes(status, "VmRSS:"), Some(1_024));
        assert_eq!(parse_bytes("Name:\tx\n", "VmHWM:"), None);
    }
}
