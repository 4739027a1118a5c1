//! SSDP announcements of the tuner in the home network.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use hearthcast::domain::ssdp::MULTICAST_ADDRESS;
use hearthcast::http::ssdp::announce_tuner;
use reqwest::Method;
use rustix::net::sockopt::{set_ip_add_membership, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use serde_json::json;
use tokio::net::UdpSocket;

use crate::kit;
use crate::kit::response::expect_success;
use crate::kit::wait::MAX_WAIT;

/// A client in the home network that receives announcements.
fn listen_to_multicast(port: u16) -> std::io::Result<UdpSocket> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    set_ip_add_membership(&socket, &MULTICAST_ADDRESS, &Ipv4Addr::LOCALHOST)?;
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn receive_text(socket: &UdpSocket) -> String {
    let mut datagram = [0; 2048];
    let received = tokio::time::timeout(MAX_WAIT, socket.recv_from(&mut datagram)).await;
    let length = received.expect("a datagram").unwrap().0;
    String::from_utf8(datagram[..length].to_vec()).unwrap()
}

fn header_of<'a>(text: &'a str, name: &str) -> &'a str {
    text.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("")
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_find_the_announced_tuner() {
    let server = kit::start_server_with(&[], |config| config.hdhomerun = true).await;
    let body = json!({"name": "Tuner"});
    let created = expect_success(server.post("/api/livetv/tokens", &body).send().await.unwrap(), 201).await;
    let secret = created["secret"].as_str().unwrap().to_owned();
    let listen: SocketAddr = server.base.strip_prefix("http://").unwrap().parse().unwrap();
    let port = std::net::UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let start_announcer = |secret: &str| announce_tuner(&server.service, secret.to_owned(), listen, port);
    let (listener, announcer, unknown_announcer) =
        match (listen_to_multicast(port), start_announcer(&secret), start_announcer("hcs_unknown")) {
            (Ok(neighbour), Ok(announcer), Ok(stranger)) => (neighbour, announcer, stranger),
            (neighbour, announcer, _) => {
                eprintln!("SKIPPED: no multicast here: {:?}, {:?}", neighbour.err(), announcer.err());
                return;
            }
        };
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let message = receive_text(&listener).await;
        assert!(
            message.starts_with("NOTIFY * HTTP/1.1\r\n") && header_of(&message, "NTS") == "ssdp:alive",
            "{message}"
        );
        kinds.push(header_of(&message, "NT").to_owned());
    }
    assert_eq!(kinds[0], "upnp:rootdevice");
    assert_eq!(kinds[2], "urn:schemas-upnp-org:device:MediaServer:1");

    // Bound to one address, so the kernel sends the multicast from there.
    let searcher = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let search = async |target: &str| {
        let text = format!(
            "M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 0\r\nST: {target}\r\n\r\n"
        );
        searcher.send_to(text.as_bytes(), (MULTICAST_ADDRESS, port)).await.unwrap();
    };
    search("urn:schemas-upnp-org:device:MediaRenderer:1").await;
    search("upnp:rootdevice").await;
    let answer = receive_text(&searcher).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(header_of(&answer, "ST"), "upnp:rootdevice");
    let location = header_of(&answer, "LOCATION");
    assert_eq!(location, format!("{}/hdhr/{secret}/device.xml", server.base));
    let description = server.client.get(location).send().await.unwrap();
    assert_eq!(description.status(), 200);
    let (description, device_id) = (description.text().await.unwrap(), kinds[1].clone());
    assert!(description.contains(&format!("<UDN>{device_id}</UDN>")), "{description}");
    assert_eq!(header_of(&answer, "USN"), format!("{device_id}::upnp:rootdevice"));
    // There was no other answer.
    search(&device_id).await;
    assert_eq!(header_of(&receive_text(&searcher).await, "ST"), device_id);

    // With a revoked token, the tuner does not answer.
    let id = created["token"]["id"].as_str().unwrap();
    let target = format!("/api/livetv/tokens/{id}");
    search("ssdp:all").await;
    for _ in 0..3 {
        assert!(receive_text(&searcher).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    announcer.cancel();
    for _ in 0..3 {
        // The listener receives the searches, too.
        let mut message = receive_text(&listener).await;
        while message.starts_with("M-SEARCH") {
            message = receive_text(&listener).await;
        }
        assert_eq!(header_of(&message, "NTS"), "ssdp:byebye", "{message}");
    }
    let answer = server.request(Method::DELETE, &target).bearer_auth(&server.token).send().await.unwrap();
    expect_success(answer, 200).await;
    let revoked_announcer = start_announcer(&secret).unwrap();
    unknown_announcer.cancel();
    revoked_announcer.cancel();
    server.service.tasks.shutdown().await;
    let mut datagram = [0; 2048];
    let unexpected =
        listener.try_recv(&mut datagram).map(|length| String::from_utf8_lossy(&datagram[..length]).into_owned());
    assert!(unexpected.is_err(), "{unexpected:?}");
}
