//! The time of a save of progress over HTTP: with the state in a folder, in PostgreSQL on the same machine, and there over TLS.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::json;

use super::certificates::Authority;
use super::media::{copy_film, make_film};
use super::postgres_server::PostgresServer;
use super::server::{Installation, Server};
use crate::workers::{median, percentile};

/// Clients that save at once, each the progress of a film of its own, one save after the other.
const CLIENTS: [usize; 2] = [1, 8];
/// Rounds in which each server is measured once, and the time of one measurement.
const ROUNDS: u64 = 4;
const MEASURED: Duration = Duration::from_millis(1500);

/// A server, and where it has its state.
struct Subject {
    name: &'static str,
    server: Server,
    token: String,
    films: Vec<PathBuf>,
    /// By number of clients: the time of each save in milliseconds, and the seconds of all measurements.
    figures: [(Vec<f64>, f64); CLIENTS.len()],
}

/// Prints the figures of all servers, which take turns.
pub async fn measure(folder: &Path) {
    let folder = folder.join("saves");
    let Some(mut database) = PostgresServer::start() else { return };
    database.sql("CREATE DATABASE secure");
    let secure = format!("{}/secure", database.url.rsplit_once('/').expect("a database").0);
    let mut subjects = Vec::new();
    for (name, state) in [("folder", None), ("PostgreSQL", Some(&database.url)), ("PostgreSQL, TLS", Some(&secure))] {
        let installation = Installation::make(&folder.join(name), state.map(String::as_str)).await;
        subjects.push((name, installation));
    }
    let authority = Authority::new("authority");
    let ca_file = folder.join("authority.pem");
    std::fs::write(&ca_file, &authority.own.certificate).expect("a file");
    database.use_tls(&authority.issue("127.0.0.1"));
    let over_tls = &mut subjects[2].1;
    over_tls.state = format!("{secure}?sslmode=require");
    over_tls.settings = vec![("HEARTHCAST_STATE_CA_FILE", ca_file.display().to_string())];
    let mut subjects: Vec<Subject> =
        subjects.into_iter().map(|(name, installation)| Subject::start(name, &installation)).collect();
    let sessions = "SELECT count(*) FILTER (WHERE ssl) || ' of ' || count(*) FROM pg_stat_ssl \
         JOIN pg_stat_activity USING (pid) WHERE application_name = 'hearthcast'";
    println!("connections with TLS: {}", database.sql(sessions));
    // The first round makes what later ones find.
    for round in 0..=ROUNDS {
        for (index, clients) in CLIENTS.into_iter().enumerate() {
            for subject in &mut subjects {
                subject.measure(index, clients, round).await;
            }
        }
    }
    for (index, clients) in CLIENTS.into_iter().enumerate() {
        print_figures(&subjects, index, clients);
    }
}

fn print_figures(subjects: &[Subject], index: usize, clients: usize) {
    println!("## saves of {clients} at once");
    let rate = |subject: &Subject| subject.figures[index].0.len() as f64 / subject.figures[index].1;
    let (first, of_folder) = (median(&subjects[0].figures[index].0), rate(&subjects[0]));
    for subject in subjects {
        let times = &subject.figures[index].0;
        println!(
            "{}: median {:.2} ms ({:.2} of the folder's), p99 {:.2} ms, {:.0} saves/s ({:.2} of the folder's)",
            subject.name,
            median(times),
            median(times) / first,
            percentile(times, 0.99),
            rate(subject),
            rate(subject) / of_folder,
        );
    }
}

impl Subject {
    fn start(name: &'static str, installation: &Installation) -> Self {
        let original = installation.media.join("film.mp4");
        make_film(&original, "testsrc2=s=64x64:r=5:d=2", "-c:v libx264 -preset ultrafast -c:a aac");
        let most = CLIENTS.into_iter().max().unwrap_or(1);
        let films = copy_film(&original, (0..most).map(|number| format!("film-{number}")));
        let mut server = installation.start("server", "127.0.0.1:0", None);
        server.wait_until_listening();
        Self { name, server, token: installation.token.clone(), films, figures: Default::default() }
    }

    /// Saves for some time; the figures of the first round are not kept.
    async fn measure(&mut self, index: usize, clients: usize, round: u64) {
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for film in &self.films[..clients] {
            let (url, token) = (format!("{}/api/stream/progress", self.server.base), self.token.clone());
            tasks.spawn(save_repeatedly(url, token, film.clone(), began + MEASURED));
        }
        let times: Vec<f64> = tasks.join_all().await.into_iter().flatten().collect();
        if round > 0 {
            self.figures[index].0.extend(times);
            self.figures[index].1 += began.elapsed().as_secs_f64();
        }
    }
}

/// Saves positions of a film one after the other until `deadline`; returns the milliseconds of each save.
async fn save_repeatedly(url: String, token: String, film: PathBuf, deadline: Instant) -> Vec<f64> {
    let (client, mut times) = (Client::new(), Vec::new());
    for position in 1.. {
        if Instant::now() >= deadline {
            break;
        }
        let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1_000_000});
        let sent = Instant::now();
        let answer = client.post(&url).bearer_auth(&token).json(&body).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{position}");
        answer.bytes().await.expect("a whole answer");
        times.push(sent.elapsed().as_secs_f64() * 1000.0);
    }
    times
}
