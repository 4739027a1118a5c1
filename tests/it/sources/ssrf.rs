//! SSRF: every way to name a non-global address is refused, and no such address is ever connected to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearthcast::domain::address::Address;
use hearthcast::domain::ssrf::AllowedSources;
use hearthcast::engine::outbound::{OutboundClient, OutboundError, OutboundRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::remote_server::{RemoteServer, ok, redirect};

/// An HTTP client with these allowed hosts and DNS records.
fn client_with(allowed: &[&str], names: &[(&str, &[&str])]) -> OutboundClient {
    let allowed: Vec<String> = allowed.iter().map(|item| (*item).to_owned()).collect();
    let parse_ip = |text: &&str| text.parse::<IpAddr>().unwrap();
    let records: HashMap<String, Vec<IpAddr>> =
        names.iter().map(|(name, ips)| ((*name).to_owned(), ips.iter().map(parse_ip).collect())).collect();
    let lookup = move |name: String| {
        let found = records.get(name.trim_end_matches('.')).cloned();
        let answer = found.ok_or_else(|| std::io::Error::other("no such name"));
        Box::pin(async move { answer }) as hearthcast::engine::outbound::LookupFuture
    };
    OutboundClient::with_lookup(AllowedSources::parse(&allowed).unwrap(), Arc::new(lookup))
}

async fn get_text(outbound: &OutboundClient, url: &str) -> Result<String, OutboundError> {
    let address = Address::parse(url).map_err(OutboundError::InvalidAddress)?;
    let answer = outbound.get(&address, &OutboundRequest::for_file(1000)).await?;
    Ok(String::from_utf8(answer.read_all().await?.to_vec()).unwrap())
}

#[tokio::test]
async fn ssrf_non_global_addresses_are_refused_in_every_notation() {
    let private_server = RemoteServer::serve("127.0.0.1", |_| ok("text/plain", "secret")).await;
    let port = private_server.address.port();
    let names: [(&str, &[&str]); 10] = [
        ("localhost", &["127.0.0.1"]),
        ("inside.example", &["127.0.0.1"]),
        ("mixed.example", &["93.184.215.14", "127.0.0.1"]),
        ("six.example", &["::1"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
        ("nat.example", &["64:ff9b::7f00:1"]),
        ("cloud.example", &["169.254.169.254"]),
        ("lan.example", &["192.168.1.1"]),
        ("zero.example", &["0.0.0.0"]),
        ("nowhere.example", &[]),
    ];
    let outbound = client_with(&[], &names);
    let hosts = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "0177.1",
        "017700000001",
        "127.000.000.001",
        "0",
        "0.0.0.0",
        "000.000.0.0",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.2",
        "127.255.255.254",
        "10.0.0.1",
        "10.1",
        "172.16.0.1",
        "172.31.255.1",
        "192.168.0.1",
        "192.168.257",
        "0xc0a80001",
        "3232235521",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:1::1]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[::ffff:0:127.0.0.1]",
        "inside.example",
        "INSIDE.example.",
        "mixed.example",
        "six.example",
        "mapped.example",
        "nat.example",
        "cloud.example",
        "lan.example",
        "zero.example",
        "nowhere.example",
        "unknown.example",
        "a.example@127.0.0.1",
        "93.184.215.14:80@127.0.0.1",
        "127.0.0.1%2f",
        "１２７.0.0.1",
        "127。0。0。1",
        "ⓛocalhost",
        "%31%32%37.0.0.1",
        "127.0.0.1:0",
        "[::1%25lo]",
        "",
    ];
    for host in hosts {
        let url = if host.ends_with(":0") { format!("http://{host}/") } else { format!("http://{host}:{port}/") };
        let answer = get_text(&outbound, &url).await;
        assert!(
            matches!(
                answer,
                Err(OutboundError::BlockedAddress(_) | OutboundError::InvalidAddress(_) | OutboundError::UnknownHost)
            ),
            "{url}: {answer:?}"
        );
        if let Ok(address) = Address::parse(&url) {
            assert!(outbound.resolve_and_reserve(&address).await.is_err(), "{url}");
        }
    }
    let urls = [
        format!("http:127.0.0.1:{port}"),
        format!("http:\\\\127.0.0.1:{port}\\"),
        format!("http://a.example\\@127.0.0.1:{port}/"),
        format!("http://93.184.215.14#@127.0.0.1:{port}/").replace("93.184.215.14", "127.0.0.1"),
        format!(" http://\t127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/_x"),
        format!("file://127.0.0.1:{port}/etc/passwd"),
        "file:///etc/passwd".to_owned(),
        "unix:/run/x.sock".to_owned(),
        "data:text/plain,secret".to_owned(),
        "udp://239.0.0.1:1234".to_owned(),
        "jar:http://127.0.0.1!/".to_owned(),
    ];
    for url in urls {
        let answer = get_text(&outbound, &url).await;
        assert!(
            matches!(
                answer,
                Err(OutboundError::BlockedAddress(_) | OutboundError::InvalidAddress(_) | OutboundError::UnknownHost)
            ),
            "{url}: {answer:?}"
        );
    }
    assert_eq!(private_server.request_heads(), Vec::<String>::new(), "no request reached the private server");
}

#[tokio::test]
async fn ssrf_redirects_are_checked_like_the_first_url() {
    let private_server = RemoteServer::serve("127.0.0.1", |_| ok("text/plain", "secret")).await;
    let port = private_server.address.port();
    let respond = move |path: &str| match path {
        "/literal" => redirect(&format!("http://127.0.0.1:{port}/")),
        "/decimal" => redirect(&format!("http://2130706433:{port}/")),
        "/name" => redirect(&format!("http://inside.example:{port}/")),
        "/relative" => redirect(&format!("//127.0.0.1:{port}/")),
        "/six" => redirect(&format!("http://[::ffff:127.0.0.1]:{port}/")),
        "/file" => redirect("file:///etc/passwd"),
        "/gopher" => redirect("gopher://127.0.0.1/"),
        "/twice" => redirect("/literal"),
        "/round" => redirect("/round"),
        "/good" => redirect("/end"),
        _ => ok("text/plain", "the end"),
    };
    let allowed_server = RemoteServer::serve("127.0.0.9", respond).await;
    // The first host is allowed by its name, which does not allow its address.
    let names: [(&str, &[&str]); 2] = [("tv.example", &["127.0.0.9"]), ("inside.example", &["127.0.0.1"])];
    let outbound = client_with(&["tv.example"], &names);
    let url = |path: &str| format!("http://ada:secret@tv.example:{}{path}", allowed_server.address.port());
    for path in ["/literal", "/decimal", "/name", "/relative", "/six", "/twice"] {
        let answer = get_text(&outbound, &url(path)).await;
        assert!(matches!(answer, Err(OutboundError::BlockedAddress(_))), "{path}: {answer:?}");
    }
    for path in ["/file", "/gopher"] {
        assert!(matches!(get_text(&outbound, &url(path)).await, Err(OutboundError::InvalidAddress(_))), "{path}");
    }
    assert_eq!(get_text(&outbound, &url("/round")).await, Err(OutboundError::TooManyRedirects));
    assert_eq!(get_text(&outbound, &url("/good")).await.as_deref(), Ok("the end"));
    assert_eq!(private_server.request_heads(), Vec::<String>::new());
    let heads = allowed_server.request_heads();
    assert!(heads[0].to_ascii_lowercase().contains("authorization: basic ywrhonnly3jlda=="), "{}", heads[0]);
    // The same server is refused by its address.
    let answer = get_text(&outbound, &allowed_server.url("/good")).await;
    assert!(matches!(answer, Err(OutboundError::BlockedAddress(_))), "{answer:?}");
}

#[tokio::test]
async fn ssrf_the_checked_address_is_the_one_connected_to() {
    let private_server = RemoteServer::serve("127.0.0.1", |_| ok("text/plain", "secret")).await;
    // DNS rebinding: the first answer is harmless, later ones are not.
    let answers = Arc::new(Mutex::new(0));
    let count = answers.clone();
    let lookup = move |_: String| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let ip: IpAddr = if *count == 1 { "93.184.215.14" } else { "127.0.0.1" }.parse().unwrap();
        Box::pin(async move { Ok(vec![ip]) }) as hearthcast::engine::outbound::LookupFuture
    };
    let outbound = OutboundClient::with_lookup(AllowedSources::default(), Arc::new(lookup));
    let address = Address::parse(&format!("http://rebound.example:{}/", private_server.address.port())).unwrap();
    assert!(outbound.resolve_and_reserve(&address).await.is_ok());
    let answer = outbound.get(&address, &OutboundRequest::for_file(1000)).await;
    assert!(matches!(answer, Err(OutboundError::BlockedAddress(_))), "{answer:?}");
    assert_eq!((private_server.request_heads().len(), *answers.lock().unwrap()), (0, 2));
}

#[tokio::test]
async fn responses_are_bounded_in_size_and_time() {
    let server = RemoteServer::serve("127.0.0.1", |path| match path {
        "/declared" => b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec(),
        "/undeclared" => [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'a'; 5000]].concat(),
        "/refused" => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec(),
        "/garbage" => b"\x16\x03\x01 no http".to_vec(),
        "/gone" => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_vec(),
        _ => ok("text/plain", "a\nb"),
    })
    .await;
    let outbound = client_with(&["127.0.0.1"], &[]);
    let get_path = async |path: &str| get_text(&outbound, &server.url(path)).await;
    assert_eq!(get_path("/declared").await, Err(OutboundError::TooLarge(1000)));
    assert_eq!(get_path("/undeclared").await, Err(OutboundError::TooLarge(1000)));
    assert_eq!(get_path("/refused").await, Err(OutboundError::Status(403)));
    assert!(matches!(get_path("/garbage").await, Err(OutboundError::ConnectionFailed(_))));
    assert!(matches!(get_path("/gone").await, Err(OutboundError::ConnectionFailed(_))));
    assert_eq!(get_path("/?token=hunter2").await.as_deref(), Ok("a\nb"));

    // A server that accepts the connection and sends nothing.
    let silent_listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("http://{}/hunter2", silent_listener.local_addr().unwrap())).unwrap();
    let options = OutboundRequest { head_timeout: Duration::from_millis(100), ..OutboundRequest::for_stream() };
    let answer = outbound.get(&address, &options).await.map(drop);
    assert!(matches!(answer, Err(OutboundError::Timeout(_))), "{answer:?}");
    // A server that stops in the middle.
    let stalled = tokio::spawn(async move {
        let _given_up = silent_listener.accept().await.unwrap();
        let (mut socket, _) = silent_listener.accept().await.unwrap();
        let mut head = [0; 16];
        socket.read_exact(&mut head).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
        socket
    });
    let options = OutboundRequest { idle_timeout: Duration::from_millis(100), ..OutboundRequest::for_stream() };
    let mut answer = outbound.get(&address, &options).await.unwrap();
    assert_eq!(answer.next_chunk().await.unwrap().unwrap(), "half");
    assert!(matches!(answer.next_chunk().await, Err(OutboundError::Timeout(_))));
    stalled.abort();

    // A port without a listener.
    let closed_address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let answer = get_text(&outbound, &format!("http://{closed_address}/hunter2")).await.unwrap_err();
    assert!(
        matches!(answer, OutboundError::ConnectionFailed(_)) && !answer.to_string().contains("hunter2"),
        "{answer}"
    );
}
