//! Imported lists and guides: time until each is stored or refused, and the peak growth of memory.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hearthcast::domain::rights::RightsClaim;
use hearthcast::domain::source::SourceKind;
use hearthcast::service::Service;
use hearthcast::service::channels::sources::SourceChange;

use crate::service_config::service_config;

const ENTRIES: usize = 6000;
const PROGRAMMES: usize = 12_000;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run_imports(folder.path()));
}

async fn run_imports(folder: &Path) {
    let state = folder.join("state");
    let service = Service::open(service_config(&state, &state.join("cache"))).expect("the service opens");
    println!("| import | MiB | s | peak growth of memory, MiB | outcome |\n|---|---|---|---|---|");
    // The first import is not counted, because it initialises things.
    measure_import(&service, None, SourceKind::M3u, make_list(10, 0)).await;
    let (id, line) = measure_import(&service, None, SourceKind::M3u, make_list(ENTRIES, 0)).await;
    print_result("list of 6,000", &line);
    for round in 1..=3 {
        let (_, line) = measure_import(&service, id, SourceKind::M3u, make_list(ENTRIES, round)).await;
        print_result(&format!("the same, reordered and renamed, refresh {}", round + 1), &line);
    }
    let complete_guide = make_guide(PROGRAMMES);
    let (id, line) = measure_import(&service, None, SourceKind::Xmltv, complete_guide.clone()).await;
    print_result("guide of 12,000", &line);
    print_result("the same again", &measure_import(&service, id, SourceKind::Xmltv, complete_guide.clone()).await.1);
    print_result(
        "the same by gzip",
        &measure_import(&service, id, SourceKind::Xmltv, gzip(&[&complete_guide])).await.1,
    );
    let half = complete_guide[..complete_guide.len() / 2].to_vec();
    for (name, kind, bytes) in [
        ("half a guide", SourceKind::Xmltv, half),
        ("entity bomb", SourceKind::Xmltv, entity_bomb()),
        ("gzip of 512 MiB of programmes", SourceKind::Xmltv, gzip_of_many_programmes()),
        ("gzip of 512 MiB in one comment", SourceKind::Xmltv, gzip(&[b"<tv><!--", &vec![b'x'; 512 << 20]])),
        ("garbage, 16 MiB, as a guide", SourceKind::Xmltv, garbage()),
        ("garbage, 16 MiB, as a list", SourceKind::M3u, garbage()),
        (
            "list of one line of quotes, 16 MiB",
            SourceKind::M3u,
            [b"#EXTM3U\n#EXTINF:-1 a=\"", &*vec![b'"'; 15 << 20]].concat(),
        ),
        ("list of 16 MiB of entries", SourceKind::M3u, make_list(170_000, 0)),
    ] {
        let (id, line) = measure_import(&service, None, kind, bytes).await;
        print_result(name, &line);
        if let Some(id) = id {
            service.remove_source(id, "bench").await.expect("it can be removed");
        }
    }
}

/// The result of one import.
struct ImportResult {
    mib: f64,
    seconds: f64,
    peak_growth_mib: f64,
    outcome: String,
}

fn print_result(name: &str, line: &ImportResult) {
    let ImportResult { mib, seconds, peak_growth_mib: grown, outcome } = line;
    println!("| {name} | {mib:.1} | {seconds:.2} | {grown:.0} | {outcome} |");
}

/// Adds a source with these bytes, or updates an existing one.
async fn measure_import(
    service: &Arc<Service>,
    id: Option<u32>,
    kind: SourceKind,
    bytes: Vec<u8>,
) -> (Option<u32>, ImportResult) {
    let text = |text: &str| Some(text.to_owned());
    let claim = RightsClaim {
        source_name: text("Own antenna"),
        source_url: text("https://antenna.example/"),
        imported_at_ms: Some(0),
        basis: text("own-content"),
        statement: text("Received with my own antenna, for my own household."),
        recording_basis: None,
        authorized: Some(true),
    };
    let mib = bytes.len() as f64 / f64::from(1 << 20);
    let change = SourceChange {
        kind: Some(kind),
        name: text("A source"),
        upload: Some(bytes.into()),
        claim,
        changed_by: "bench".to_owned(),
        ..SourceChange::default()
    };
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (before, started) = (memory_mib("VmRSS:"), Instant::now());
    let result = match id {
        Some(id) => service.change_source(id, change).await,
        None => service.add_source(change).await,
    };
    let seconds = started.elapsed().as_secs_f64();
    let grown = memory_mib("VmHWM:") - before;
    let (id, outcome) = match result {
        Ok(source) => {
            let counts = source.counts;
            let outcome =
                format!("{} channels, {} programmes, {} skipped", counts.channels, counts.programmes, counts.skipped);
            (Some(source.id), outcome)
        }
        Err(fault) => (None, fault.message),
    };
    (id, ImportResult { mib, seconds, peak_growth_mib: grown, outcome })
}

/// A list of channels; each `round` has another order, other names and other tokens.
fn make_list(count: usize, round: usize) -> Vec<u8> {
    let entry = |position: usize| {
        // Primes, so that each entry occurs once.
        let n = position * [1, 7919, 7907, 7901][round % 4] % count;
        let name = if (n + round).is_multiple_of(7) { format!("Renamed {round} {n}") } else { format!("Channel {n}") };
        let group = n % 40;
        format!(
            "#EXTINF:-1 tvg-id=\"c{n}\" tvg-logo=\"http://l.example/{n}.png\" group-title=\"G{group}\",{name}\nhttp://tv.example/{n}.ts?t={round}\n"
        )
    };
    format!("#EXTM3U\n{}", (0..count).map(entry).collect::<String>()).into_bytes()
}

fn programme_element(n: usize) -> String {
    format!(
        "<programme start=\"202601{:02}{:02}0000 +0000\" channel=\"c{}\"><title>The title of {n} &amp; more</title>\
         <sub-title>Part {n}</sub-title><desc>{}</desc><category>Film</category></programme>\n",
        1 + n / 24 % 28,
        n % 24,
        n / 672,
        "What happens in it, described at length &amp; with care. ".repeat(14)
    )
}

/// A guide of about 10 MB.
fn make_guide(count: usize) -> Vec<u8> {
    format!("<?xml version=\"1.0\"?><tv>{}</tv>", (0..count).map(programme_element).collect::<String>()).into_bytes()
}

fn gzip(parts: &[&[u8]]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    parts.iter().for_each(|part| encoder.write_all(part).expect("memory takes it"));
    encoder.finish().expect("memory takes it")
}

fn gzip_of_many_programmes() -> Vec<u8> {
    let chunk: String = (0..1000).map(programme_element).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"<tv>").expect("memory takes it");
    for _ in 0..(512 << 20) / chunk.len() {
        encoder.write_all(chunk.as_bytes()).expect("memory takes it");
    }
    encoder.finish().expect("memory takes it")
}

fn entity_bomb() -> Vec<u8> {
    let mut text = "<!DOCTYPE tv [<!ENTITY e0 \"lol\"><!ENTITY f SYSTEM \"file:///etc/passwd\">".to_owned();
    for n in 1..12 {
        text += &format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10));
    }
    text += "]><tv><programme start=\"20260101\" channel=\"c\"><title>&e11;&f;</title></programme></tv>";
    text.into_bytes()
}

fn garbage() -> Vec<u8> {
    (0..16u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn memory_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of every process");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}
