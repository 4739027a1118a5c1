//! The start of a server without any address of a queue or a database.

use std::path::Path;
use std::time::Instant;

use super::server::Installation;
use crate::workers::median;

const STARTS: usize = 10;

/// Prints the time from exec to the line with its address.
pub async fn measure(folder: &Path) {
    let folder = folder.join("start");
    let installation = Installation::make(&folder, None).await;
    let mut times = Vec::new();
    // The first one makes what later starts find.
    for number in 0..=STARTS {
        let started = Instant::now();
        let mut server = installation.start("server", "127.0.0.1:0", None);
        server.wait_until_listening();
        if number > 0 {
            times.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    }
    println!("start without a queue and a database: {:.0} ms (median of {STARTS})", median(&times));
}
