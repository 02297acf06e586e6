//! Requests a second that the simulation of hybrid nodes handles on one core, devices and clients included:
//! `cargo run --release -p forebay-sim --example hybrid_speed`.

use std::time::Instant;

use forebay_core::hybrid::HybridConfig;
use forebay_sim::hybrid::timed::{Cluster, Job, Jobs, run};
use forebay_sim::workload::{Ior, Pattern};

const MIB: u64 = 1 << 20;

fn main() {
    println!("{:<10} {:<12} {:>10}   million requests at servers a second", "policy", "pattern", "");
    let ssd_bytes = 1024 * MIB;
    for (name, node) in [
        ("none", HybridConfig::none(0)),
        ("all", HybridConfig::all(ssd_bytes)),
        ("ssdup", HybridConfig::ssdup(ssd_bytes)),
        ("ssdup+", HybridConfig::ssdup_plus(ssd_bytes)),
    ] {
        for pattern in [Pattern::Contiguous, Pattern::Strided, Pattern::Random] {
            let cluster = Cluster::of_ssdup_plus(node.clone());
            let bytes = 16 * 1024 * MIB;
            let ior = Ior { request_bytes: 64 << 10, ..Ior::of_ssdup_plus(pattern, 32, bytes, 0) };
            let job = Job { pause_ns_max: 100_000, ..Job::new(ior, 0, bytes) };
            let start = Instant::now();
            let outcome = run(&cluster, &mut Jobs::new(vec![job], 1));
            let rate = outcome.requests as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{name:<10} {:<12} {rate:>10.2}", format!("{pattern:?}"));
        }
    }
}
