//! Whom a nats-server lets in with the configuration of a queue's authority, and to what.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, AckKind};
use async_nats::{Auth, Client, ConnectOptions, Event};
use futures_util::StreamExt;
use hearthcast::engine::remote::Cluster;
use hearthcast::engine::remote::identity::{WorkerIdentity, parse_public_key};
use hearthcast::engine::remote::nats::{connect, serve_cluster};
use hearthcast::engine::remote::queue_authority::QueueAuthority;
use hearthcast::engine::remote::subjects;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::nats_server::NatsServer;

use crate::kit::wait::MAX_WAIT;

/// Wait for a message that must not come: sent after it, another one has come.
const LAST: &str = "last";

/// A client with this JWT, and what nats-server reports to it.
async fn connect_with(
    nats: &NatsServer,
    worker: &str,
    jwt: String,
    key: Arc<WorkerIdentity>,
) -> Option<(Client, mpsc::Receiver<Event>)> {
    let (sender, events) = mpsc::channel(100);
    let sign = move |nonce: Vec<u8>| {
        let mut auth = Auth::new();
        (auth.jwt, auth.signature) = (Some(jwt.clone()), Some(key.sign_bytes(&nonce)));
        async move { Ok(auth) }
    };
    let options = ConnectOptions::with_auth_callback(sign)
        .custom_inbox_prefix(subjects::inbox(worker))
        .max_reconnects(1)
        .event_callback(move |event| {
            let sender = sender.clone();
            async move {
                let _ = sender.try_send(event);
            }
        });
    Some((options.connect(&nats.url).await.ok()?, events))
}

/// A nats-server with the configuration of an authority whose server is connected, and a worker's key.
async fn start() -> Option<(NatsServer, Arc<QueueAuthority>, Arc<WorkerIdentity>)> {
    let authority = Arc::new(QueueAuthority::new(&[7; 32], Timestamp::now().as_second()));
    let mut nats = NatsServer::new();
    nats.configuration = Some(authority.server_configuration(nats.port));
    let nats = nats.run_if_installed()?;
    let (url, served) = (nats.url.clone(), authority.clone());
    tokio::spawn(async move { serve_cluster(Cluster::new(1), &url, served, |_| true).await });
    Some((nats, authority, Arc::new(WorkerIdentity::generate().unwrap())))
}

fn jwt_until(authority: &QueueAuthority, worker: &str, key: &WorkerIdentity, lifetime_seconds: i64) -> String {
    let now = Timestamp::now().as_second();
    let public_key = parse_public_key(&key.public_key()).unwrap();
    authority.worker_jwt(worker, &public_key, now - 60, now + lifetime_seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reaches_the_offers_and_its_own_runs_only() {
    let Some((nats, authority, key)) = start().await else { return };
    let (client, mut events) =
        connect_with(&nats, "w_1", jwt_until(&authority, "w_1", &key, 600), key.clone()).await.expect("it is let in");
    let server = connect(&nats.url, "test", "_INBOX", authority.clone()).await.unwrap();
    let mut beats = server.subscribe(subjects::BEATS).await.unwrap();
    let mut others = server.subscribe(">").await.unwrap();
    server.flush().await.unwrap();

    for subject in [
        subjects::OFFER_SUBJECT.to_owned(),
        subjects::beat("w_2", "a"),
        subjects::control("w_1", "a"),
        subjects::report("w_2"),
        format!("$JS.API.STREAM.DELETE.{}", subjects::OFFERS_STREAM),
        format!("$JS.API.CONSUMER.DELETE.{}.{}", subjects::OFFERS_STREAM, subjects::CONSUMER),
    ] {
        client.publish(subject.clone(), "x".into()).await.unwrap();
        expect_refusal(&mut events, &subject).await;
    }
    for subject in [">".to_owned(), subjects::control("w_2", "*"), subjects::BEATS.to_owned(), "_INBOX.>".to_owned()] {
        let _subscription = client.subscribe(subject.clone()).await.unwrap();
        client.flush().await.unwrap();
        expect_refusal(&mut events, &subject).await;
    }
    client.publish(subjects::beat("w_1", LAST), "".into()).await.unwrap();
    let beat = timeout(MAX_WAIT, beats.next()).await.unwrap().unwrap();
    assert_eq!(*beat.subject, subjects::beat("w_1", LAST));
    let is_of_worker = |subject: &str| !subject.starts_with("$JS.") && !subject.starts_with("_INBOX");
    while let Some(message) = timeout(MAX_WAIT, others.next()).await.unwrap() {
        if *message.subject == subjects::beat("w_1", LAST) {
            break;
        }
        assert!(!is_of_worker(&message.subject), "{} was let through", message.subject);
    }

    // It takes an offer as the program does, and has a message about its own run.
    let offers = jetstream::new(client.clone());
    let began = Instant::now();
    let consumer = loop {
        match offers
            .get_consumer_from_stream::<jetstream::consumer::pull::Config, _, _>(
                subjects::CONSUMER,
                subjects::OFFERS_STREAM,
            )
            .await
        {
            Ok(consumer) => break consumer,
            Err(cause) => assert!(began.elapsed() < MAX_WAIT, "{cause}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut controls = client.subscribe(subjects::control("w_1", "a")).await.unwrap();
    client.flush().await.unwrap();
    let stored = jetstream::new(server.clone()).publish(subjects::OFFER_SUBJECT, "offer".into()).await.unwrap();
    stored.await.unwrap();
    let mut batch = consumer.batch().max_messages(1).expires(MAX_WAIT).messages().await.unwrap();
    let message = timeout(MAX_WAIT, batch.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&*message.payload, b"offer");
    message.ack_with(AckKind::Progress).await.unwrap();
    message.double_ack().await.unwrap();
    server.publish(subjects::control("w_1", "a"), "control".into()).await.unwrap();
    assert_eq!(&*timeout(MAX_WAIT, controls.next()).await.unwrap().unwrap().payload, b"control");
}

async fn expect_refusal(events: &mut mpsc::Receiver<Event>, subject: &str) {
    let refusal = async {
        while let Some(event) = events.recv().await {
            if event.to_string().to_lowercase().contains("permissions violation") {
                return event.to_string();
            }
        }
        panic!("the connection ended");
    };
    let text = timeout(MAX_WAIT, refusal).await.unwrap_or_else(|_| panic!("{subject} is not refused"));
    assert!(text.contains(subject), "{text} is not about {subject}");
}

/// The line of `hearthcast doctor` about a queue.
fn doctor(queue: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("hearthcast.toml");
    let text = format!("roots = []\nqueue = {queue:?}\nstate = {:?}\n", folder.path().join("state"));
    std::fs::write(&configuration, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    let output = command.args(["doctor", "--config"]).arg(&configuration).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    text.lines().find(|line| line.contains("the queue ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_whether_the_queue_checks_credentials() {
    let Some((nats, ..)) = start().await else { return };
    let open = NatsServer::start().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_url = format!("nats://{}", other.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = other.accept() {
            client.write_all(b"220 mail\r\n").unwrap()
        }
    });
    let found =
        tokio::task::spawn_blocking(move || [&*nats.url, &open.url, &other_url, "nats://127.0.0.1:9"].map(doctor));
    let [checked, open, other, missing] = found.await.unwrap();
    assert!(checked.starts_with("ok ") && checked.ends_with("checks credentials"), "{checked}");
    assert!(open.starts_with("warn") && open.contains("lets in everybody"), "{open}");
    assert!(other.starts_with("warn") && other.contains("no nats-server"), "{other}");
    assert!(missing.starts_with("warn") && missing.contains("refused"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_a_valid_credential_is_let_in() {
    let Some((nats, authority, key)) = start().await else { return };
    let valid = jwt_until(&authority, "w_1", &key, 600);
    assert!(ConnectOptions::new().connect(&nats.url).await.is_err(), "no credential");
    let stranger = Arc::new(WorkerIdentity::generate().unwrap());
    assert!(connect_with(&nats, "w_1", valid.clone(), stranger).await.is_none(), "another key");
    let other = QueueAuthority::new(&[8; 32], 0);
    assert!(
        connect_with(&nats, "w_1", jwt_until(&other, "w_1", &key, 600), key.clone()).await.is_none(),
        "another server's"
    );
    assert!(connect_with(&nats, "w_1", jwt_until(&authority, "w_1", &key, -1), key.clone()).await.is_none(), "expired");
    assert!(connect_with(&nats, "w_1", valid, key.clone()).await.is_some());

    let (_client, mut events) = connect_with(&nats, "w_1", jwt_until(&authority, "w_1", &key, 3), key).await.unwrap();
    let ended = async { while !matches!(events.recv().await, Some(Event::Disconnected) | None) {} };
    timeout(MAX_WAIT, ended).await.expect("the connection ends when its credential expires");
}
