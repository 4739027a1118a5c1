//! SSDP announcements of the tuner in the home network.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use hearthcast::domain::ssdp::MULTICAST_ADDRESS;
use hearthcast::http::ssdp::Announcer;
use reqwest::Method;
use rustix::net::sockopt::{set_ip_add_membership, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use serde_json::json;
use tokio::net::UdpSocket;

use crate::kit;
use crate::kit::answer::success;

/// A client in the home network that receives announcements.
fn neighbour(port: u16) -> std::io::Result<UdpSocket> {
    let made = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&made, true)?;
    bind(&made, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    set_ip_add_membership(&made, &MULTICAST_ADDRESS, &Ipv4Addr::LOCALHOST)?;
    let made = std::net::UdpSocket::from(made);
    made.set_nonblocking(true)?;
    UdpSocket::from_std(made)
}

async fn hear(socket: &UdpSocket) -> String {
    let mut datagram = [0; 2048];
    let heard = tokio::time::timeout(Duration::from_secs(40), socket.recv_from(&mut datagram)).await;
    let length = heard.expect("a datagram within 40 s").unwrap().0;
    String::from_utf8(datagram[..length].to_vec()).unwrap()
}

fn header<'a>(text: &'a str, name: &str) -> &'a str {
    text.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_for_tuners_finds_the_one_that_is_announced() {
    let server = kit::server_with(&[], |config| config.hdhomerun = true).await;
    let asked = json!({"name": "Tuner"});
    let made = success(server.post("/api/livetv/tokens", &asked).send().await.unwrap(), 201).await;
    let secret = made["secret"].as_str().unwrap().to_owned();
    let listen: SocketAddr = server.base.strip_prefix("http://").unwrap().parse().unwrap();
    let port = std::net::UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let begin = |secret: &str| Announcer::start(&server.service, secret.to_owned(), listen, port);
    let (neighbour, announcer, stranger) = match (neighbour(port), begin(&secret), begin("hcs_unknown")) {
        (Ok(neighbour), Ok(announcer), Ok(stranger)) => (neighbour, announcer, stranger),
        (neighbour, announcer, _) => {
            eprintln!("SKIPPED: no multicast here: {:?}, {:?}", neighbour.err(), announcer.err());
            return;
        }
    };
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let told = hear(&neighbour).await;
        assert!(told.starts_with("NOTIFY * HTTP/1.1\r\n") && header(&told, "NTS") == "ssdp:alive", "{told}");
        kinds.push(header(&told, "NT").to_owned());
    }
    assert_eq!(kinds[0], "upnp:rootdevice");
    assert_eq!(kinds[2], "urn:schemas-upnp-org:device:MediaServer:1");

    // Bound to one address, so the kernel sends the multicast from there.
    let seeker = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let seek = async |target: &str| {
        let text = format!(
            "M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 0\r\nST: {target}\r\n\r\n"
        );
        seeker.send_to(text.as_bytes(), (MULTICAST_ADDRESS, port)).await.unwrap();
    };
    seek("urn:schemas-upnp-org:device:MediaRenderer:1").await;
    seek("upnp:rootdevice").await;
    let answer = hear(&seeker).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(header(&answer, "ST"), "upnp:rootdevice");
    let location = header(&answer, "LOCATION");
    assert_eq!(location, format!("{}/hdhr/{secret}/device.xml", server.base));
    let description = server.client.get(location).send().await.unwrap();
    assert_eq!(description.status(), 200);
    let (description, own) = (description.text().await.unwrap(), kinds[1].clone());
    assert!(description.contains(&format!("<UDN>{own}</UDN>")), "{description}");
    assert_eq!(header(&answer, "USN"), format!("{own}::upnp:rootdevice"));
    // There was no other answer.
    seek(&own).await;
    assert_eq!(header(&hear(&seeker).await, "ST"), own);

    // With a revoked token, the tuner does not answer.
    let id = made["token"]["id"].as_str().unwrap();
    let target = format!("/api/livetv/tokens/{id}");
    seek("ssdp:all").await;
    for _ in 0..3 {
        assert!(hear(&seeker).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    announcer.shut_down().await;
    for _ in 0..3 {
        // The listener receives the searches, too.
        let mut told = hear(&neighbour).await;
        while told.starts_with("M-SEARCH") {
            told = hear(&neighbour).await;
        }
        assert_eq!(header(&told, "NTS"), "ssdp:byebye", "{told}");
    }
    let gone = server.ask(Method::DELETE, &target).bearer_auth(&server.token).send().await.unwrap();
    success(gone, 200).await;
    let revoked = begin(&secret).unwrap();
    stranger.shut_down().await;
    revoked.shut_down().await;
    let mut datagram = [0; 2048];
    let left =
        neighbour.try_recv(&mut datagram).map(|length| String::from_utf8_lossy(&datagram[..length]).into_owned());
    assert!(left.is_err(), "{left:?}");
}
