//! Requests a second that the simulation of hybrid nodes handles on one core, devices and clients included:
//! `cargo run --release -p forebay-sim --example hybrid_speed`.

use std::time::Instant;

use forebay_core::hybrid::HybridConfig;
use forebay_core::policy::Operation;
use forebay_core::policy::detector::FragmentRule;
use forebay_sim::hybrid::timed::{Cluster, Job, Jobs, Pattern, run};
use forebay_store::device::model::{LinkSpec, Scheduling, preset};

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
            let cluster = Cluster {
                servers: 2,
                stripe_bytes: 64 << 10,
                node: node.clone(),
                disk: preset("savvio-300g").expect("it is a preset"),
                disk_scheduling: Scheduling::default(),
                ssd: preset("s3520-240g").expect("it is a preset"),
                link: LinkSpec { latency_ns: 50_000, bytes_per_s: 1_170_000_000 },
                fragments: FragmentRule::default(),
            };
            let job = Job {
                file: 0,
                file_bytes: 16 * 1024 * MIB,
                processes: 32,
                request_bytes: 64 << 10,
                pattern,
                operation: Operation::Write,
                skew: 3,
                pause_ns_max: 100_000,
                after: None,
            };
            let start = Instant::now();
            let outcome = run(&cluster, &mut Jobs::new(vec![job], 1));
            let rate = outcome.requests as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{name:<10} {:<12} {rate:>10.2}", format!("{pattern:?}"));
        }
    }
}
