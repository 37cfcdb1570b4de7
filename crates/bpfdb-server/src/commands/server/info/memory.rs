//! INFO memory. docs/operation.md explains the kinds of memory.

use std::fmt;
use std::fs;

use bpfdb::Stats;

use super::{Page, Source};
use crate::instance::Instance;

/// Figures that several fields are made of, bytes.
struct Figures {
    /// What the data takes, and what the daemon keeps for clients.
    used: u64,
    of_clients: u64,
    /// The engine's memory, and the daemon's.
    resident: u64,
    allocator: Allocator,
}

/// The engine's memory, bytes.
struct Allocator {
    /// Slots in use, and the index as far as records fill it.
    allocated: u64,
    /// The pages that these lie in: what counts against maxmemory.
    active: u64,
    /// What the kernel gave.
    added: u64,
    /// Of that, what is kept ready on purpose.
    ready: u64,
    /// A page of each size class that has some: one is always being filled.
    filling: u64,
}

impl Figures {
    fn of(source: &Source<'_>) -> Self {
        let (stats, instance) = (source.stats, source.instance);
        let of_clients = instance.statistics.numbers.client_memory_bytes.get();
        Self {
            used: stats.memory_used() + of_clients,
            of_clients,
            resident: stats.memory_added() + resident().unwrap_or(0),
            allocator: Allocator::of(stats, instance.settings.memory_ahead.bytes()),
        }
    }

    /// What `mem_fragmentation_ratio` compares with what is used.
    ///
    /// Redis compares all memory of its process: what is beyond the data is what its
    /// allocator wastes. Here it would be something else: what `memory-ahead` keeps ready,
    /// pages that are free for all, and a process that is equally large whatever there is
    /// of data; with few data that made ratios of hundreds. So these are left out, and so
    /// is the page of each size class that is being filled. What remains is why a write may be refused although used_memory is below maxmemory:
    /// room in pages that are not free. All memory is in used_memory_rss.
    fn held(&self) -> u64 {
        let kept = self
            .allocator
            .active
            .saturating_sub(self.allocator.allocated);
        self.used + kept.saturating_sub(self.allocator.filling)
    }
}

impl Allocator {
    fn of(stats: &Stats, ahead: u64) -> Self {
        let (active, added) = (stats.memory_held(), stats.memory_added());
        let classes = stats.classes.iter().filter(|class| class.pages > 0).count() as u64;
        Self {
            allocated: stats.memory_used(),
            filling: classes * u64::from(bpfdb::abi::BPFDB_PAGE_SIZE),
            active,
            added,
            ready: ready(active, added, ahead),
        }
    }

    fn held(&self) -> u64 {
        self.added - self.ready
    }
}

/// Memory is added in whole segments: up to one more than asked for.
fn ready(active: u64, added: u64, ahead: u64) -> u64 {
    let most = ahead.saturating_add(bpfdb::SEGMENT_SIZE);
    added.saturating_sub(active).min(most)
}

pub(super) fn memory(page: &mut Page, source: &Source<'_>) {
    let (stats, instance) = (source.stats, source.instance);
    let figures = Figures::of(source);
    let (used, of_clients, held) = (figures.used, figures.of_clients, figures.held());
    let resident = figures.resident;
    let peak = instance.see_memory(used);
    let limit = stats.segments_max * bpfdb::SEGMENT_SIZE;
    let machine = nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total());
    page.lines(&[
        ("used_memory", &used),
        ("used_memory_human", &Human(used)),
        ("used_memory_rss", &resident),
        ("used_memory_rss_human", &Human(resident)),
        ("used_memory_peak", &peak),
        ("used_memory_peak_human", &Human(peak)),
        ("used_memory_peak_perc", &percent(used, peak)),
        ("used_memory_overhead", &of_clients),
        ("used_memory_startup", &instance.memory_at_start),
        ("used_memory_dataset", &stats.memory_used()),
        (
            "used_memory_dataset_perc",
            &percent(stats.memory_used(), used),
        ),
        ("total_system_memory", &machine),
        ("total_system_memory_human", &Human(machine)),
        ("maxmemory", &limit),
        ("maxmemory_human", &Human(limit)),
        (
            "maxmemory_policy",
            &instance.settings.max_memory_policy.word(),
        ),
        ("mem_fragmentation_ratio", &ratio(held, used)),
        ("mem_fragmentation_bytes", &less(held, used)),
        ("mem_kept_for_reuse", &stats.memory_kept()),
        ("mem_not_counted_for_evict", &0),
        ("mem_replication_backlog", &0),
        ("mem_total_replication_buffers", &0),
    ]);
    page.metrics(&["mem_clients_normal"]);
    page.lines(&[
        ("mem_clients_slaves", &0),
        ("mem_cluster_links", &0),
        ("mem_aof_buffer", &0),
        ("mem_allocator", &"bpfdb"),
        ("active_defrag_running", &0),
        ("lazyfree_pending_objects", &0),
        ("lazyfreed_objects", &0),
    ]);
    scripts(page, instance);
    allocator(page, &figures.allocator, resident);
}

fn scripts(page: &mut Page, instance: &Instance) {
    let scripts = &instance.scripts;
    // As they were when one was called, listed or loaded last.
    let functions = instance.functions.current();
    let kept = instance.functions.bytes();
    let (texts, states) = (scripts.bytes(), scripts.idle_bytes());
    for (field, value) in [
        ("used_memory_lua", states),
        ("used_memory_vm_eval", states),
        ("used_memory_scripts_eval", texts),
        ("number_of_cached_scripts", scripts.len()),
        ("number_of_functions", functions.functions()),
        ("number_of_libraries", functions.len()),
        ("used_memory_vm_functions", 0),
        ("used_memory_vm_total", states),
        ("used_memory_functions", kept),
        ("used_memory_scripts", texts + kept),
    ] {
        page.line(field, value);
    }
    for (field, value) in [
        ("used_memory_lua_human", states),
        ("used_memory_vm_total_human", states),
        ("used_memory_scripts_human", texts + kept),
    ] {
        page.line(field, Human(value as u64));
    }
}

fn allocator(page: &mut Page, of: &Allocator, resident: u64) {
    page.lines(&[
        ("allocator_allocated", &of.allocated),
        ("allocator_active", &of.active),
        ("allocator_resident", &of.added),
        ("allocator_frag_ratio", &ratio(of.active, of.allocated)),
        ("allocator_frag_bytes", &less(of.active, of.allocated)),
        ("allocator_rss_ratio", &ratio(of.held(), of.active)),
        ("allocator_rss_bytes", &less(of.held(), of.active)),
        ("rss_overhead_ratio", &ratio(resident, of.added)),
        ("rss_overhead_bytes", &less(resident, of.added)),
    ]);
}

fn ratio(a: u64, b: u64) -> String {
    format!("{:.2}", a as f64 / b.max(1) as f64)
}

fn percent(a: u64, b: u64) -> String {
    format!("{:.2}%", 100.0 * a as f64 / b.max(1) as f64)
}

fn less(a: u64, b: u64) -> i128 {
    i128::from(a) - i128::from(b)
}

/// Bytes as Redis writes them for people: `1.72M`.
struct Human(u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let units = [("P", 50), ("T", 40), ("G", 30), ("M", 20), ("K", 10)];
        let unit = units.iter().find(|&&(_, shift)| bytes >> shift > 0);
        match unit {
            Some((unit, shift)) => {
                let value = bytes as f64 / (1u64 << shift) as f64;
                write!(f, "{value:.2}{unit}")
            }
            None => write!(f, "{bytes}B"),
        }
    }
}

/// Memory of this process that is in the machine's, bytes.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (458_752, "448.00K"),
            (1_803_551, "1.72M"),
            (64 << 30, "64.00G"),
            (3 << 39, "1.50T"),
        ] {
            assert_eq!(Human(bytes).to_string(), text);
        }
    }

    #[test]
    fn what_is_kept_ready_is_no_waste() {
        const SEGMENT: u64 = bpfdb::SEGMENT_SIZE;
        let held = |active, added| added - ready(active, added, 2 * SEGMENT);
        assert_eq!(held(1000, 3 * SEGMENT), 1000);
        assert_eq!(held(SEGMENT, 4 * SEGMENT), SEGMENT);
        // After most keys were deleted: nothing is given back.
        assert_eq!(held(SEGMENT, 10 * SEGMENT), 7 * SEGMENT);
    }
}
