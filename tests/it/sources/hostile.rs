//! Hostile lists and guides: each is imported as far as it makes sense, or refused with a reason.

use std::collections::BTreeMap;
use std::io::Write;

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, get_as_admin, upload, with_rights};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

/// The expected outcome for a file.
enum Outcome {
    /// Refused, with this text in the reason.
    Refused(&'static str),
    /// Imported: channels of a list or programmes of a guide, number of skipped entries, and text in a reason for skipping.
    Imported(usize, usize, &'static str),
}

use Outcome::{Imported, Refused};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn programme_element(n: usize, title: &str) -> String {
    format!(
        "<programme start=\"202601{:02}{:02}0000 +0000\" channel=\"c{}\"><title>{title}</title></programme>\n",
        1 + n / 24 % 28,
        n % 24,
        n / 672
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_is_imported_or_refused_with_a_reason() {
    // A billion laughs, and external entities of files and URLs.
    let entity_bomb: String = (1..12).fold("<!DOCTYPE tv [<!ENTITY e0 \"lol\">".to_owned(), |text, n| {
        text + &format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10))
    });
    let external_entities = "<!DOCTYPE tv [<!ENTITY f SYSTEM \"file:///etc/passwd\"><!ENTITY h SYSTEM \"http://127.0.0.1:1/\">\
        <!ENTITY % p SYSTEM \"http://127.0.0.1:1/x.dtd\">%p;]>";
    let programmes: String = (0..600).map(|n| programme_element(n, "T &amp; T")).collect();
    let complete = format!("<tv>{programmes}</tv>");
    let list_entry = |name: &str, n: usize| format!("#EXTINF:-1 tvg-id=\"c{n}\",{name}\nhttp://tv.example/{n}.ts\n");
    let latin1: Vec<u8> =
        [b"#EXTM3U\n#EXTINF:-1,Caf\xe9 \xfcber\nhttp://tv.example/1.ts\n".as_slice(), list_entry("B", 2).as_bytes()]
            .concat();
    let cases: Vec<(&str, &str, Vec<u8>, Outcome)> = vec![
        (
            "entity bomb",
            "xmltv",
            format!("{entity_bomb}]><tv>{}</tv>", programme_element(0, "&e11;")).into_bytes(),
            Imported(1, 0, ""),
        ),
        (
            "entities of files",
            "xmltv",
            format!("{external_entities}<tv>{}</tv>", programme_element(0, "&f;&h;")).into(),
            Imported(1, 0, ""),
        ),
        ("packed twice", "xmltv", gzip(&gzip(complete.as_bytes())), Refused("is not XMLTV")),
        (
            "packed comment of 4 MiB",
            "xmltv",
            gzip(&[b"<tv><!--".as_slice(), &vec![b'x'; 4 << 20]].concat()),
            Imported(0, 1, "1 MiB"),
        ),
        (
            "packed text of 4 MiB",
            "xmltv",
            gzip(&[b"<tv><programme start=\"2026\" channel=\"c\"><title>".as_slice(), &vec![b'x'; 4 << 20]].concat()),
            Imported(1, 1, "1 MiB"),
        ),
        ("cut off", "xmltv", complete.as_bytes()[..complete.len() / 2].to_vec(), Imported(300, 1, "cut off")),
        (
            "cut off, packed",
            "xmltv",
            {
                let compressed = gzip(complete.as_bytes());
                compressed[..compressed.len() - 4].to_vec()
            },
            Imported(600, 1, ""),
        ),
        (
            "garbage",
            "xmltv",
            (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
            Refused("is not XMLTV"),
        ),
        ("deep", "xmltv", format!("<tv>{}", "<a>".repeat(50_000)).into(), Imported(0, 1, "too deep")),
        ("a page", "xmltv", b"<!doctype html><title>Please sign in</title>".to_vec(), Refused("is not XMLTV")),
        ("hundreds", "xmltv", complete.clone().into_bytes(), Imported(600, 0, "")),
        (
            "control characters",
            "m3u",
            format!("#EXTM3U\n{}{}", list_entry("A\u{0}\u{1b}[31mB\u{202e}C", 1), list_entry("\u{7}", 2)).into(),
            Imported(2, 0, ""),
        ),
        ("latin-1", "m3u", latin1, Imported(2, 0, "")),
        (
            "cut off",
            "m3u",
            b"#EXTM3U\n#EXTINF:-1,A\nhttp://tv.example/1\n#EXTINF:-1 tvg-id=\"tw".to_vec(),
            Imported(1, 1, "no address"),
        ),
        (
            "one line without end",
            "m3u",
            [b"#EXTM3U\n#EXTINF:-1 a=\"".as_slice(), &vec![b'"'; 256 << 10]].concat(),
            Imported(0, 1, "no address"),
        ),
        (
            "inside",
            "m3u",
            b"#EXTM3U\n#EXTINF:-1,A\nfile:///etc/passwd\n#EXTINF:-1,B\nconcat:/etc/passwd|x\n".to_vec(),
            Imported(0, 2, "file://"),
        ),
        (
            "garbage",
            "m3u",
            (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 25) as u8).collect(),
            Imported(0, usize::MAX, ""),
        ),
        ("nothing", "m3u", Vec::new(), Refused("upload")),
        ("a page", "m3u", b"<html>Please sign in</html>".to_vec(), Refused("page")),
        ("too large", "m3u", vec![b'#'; (16 << 20) + 1], Refused("large")),
    ];
    let server = kit::start_server(&[]).await;
    for (name, kind, bytes, outcome) in cases {
        let mut body = with_rights(json!({"kind": kind, "name": name}));
        if kind == "xmltv" {
            body.as_object_mut().unwrap().retain(|field, _| field != "rights" && field != "attestation");
        }
        let answer = upload(&server, Method::POST, SOURCES, &body, &bytes).await;
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        let response: Value = serde_json::from_str(&text).unwrap();
        match outcome {
            Refused(expected_reason) => {
                assert!(status == 400 || status == 413, "{name}: {status} {text}");
                assert!(text.to_lowercase().contains(&expected_reason.to_lowercase()), "{name}: {text}");
            }
            Imported(expected_count, expected_skipped, expected_reason) => {
                assert_eq!(status, 201, "{name}: {text}");
                let source = &response["source"];
                let count = &source["counts"][if kind == "m3u" { "channels" } else { "programmes" }];
                assert_eq!(count, &json!(expected_count), "{name}: {}", source["counts"]);
                let skipped = source["counts"]["skipped"].as_u64().unwrap() as usize;
                assert!(
                    skipped == expected_skipped || expected_skipped == usize::MAX && skipped > 0,
                    "{name}: {skipped}"
                );
                let reasons = source["skipped"].as_array().unwrap();
                let is_expected = |reason: &Value| reason["reason"].as_str().unwrap().contains(expected_reason);
                assert!(expected_reason.is_empty() || reasons.iter().any(is_expected), "{name}: {reasons:?}");
                assert!(!text.contains("root:") && !text.contains("lollol"), "{name}: {text}");
            }
        }
    }
    let names: Vec<String> = get_as_admin(&server, CHANNELS).await["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| channel["name"].as_str().unwrap().to_owned())
        .collect();
    for expected_name in ["A[31mBC", "Caf\u{e9} \u{fc}ber"] {
        assert!(names.iter().any(|name| name == expected_name), "{expected_name}: {names:?}");
    }
    expect_error(
        upload(&server, Method::POST, SOURCES, &json!({"kind": "m3u", "name": "x"}), b"#EXTM3U").await,
        422,
        "RIGHTS_BASIS_REQUIRED",
    )
    .await;
}

/// Channel ids by URL, of all enabled channels.
async fn ids_by_url(server: &Server) -> BTreeMap<String, u32> {
    let all = server.service.channels.all();
    let enabled = all.iter().filter(|channel| channel.settings.enabled);
    let without_query = |url: &str| url.split('?').next().unwrap().to_owned();
    enabled
        .map(|channel| (without_query(channel.external.as_ref().unwrap().stream.url.full_url().as_str()), channel.id))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_keep_their_ids_when_a_long_list_is_reordered_and_renamed() {
    const COUNT: usize = 400;
    let server = kit::start_server(&[]).await;
    // Entry n of refresh `round` varies its position, its name, its token, and whether it has an id.
    let list = |round: usize| {
        let mut order: Vec<usize> = (0..COUNT).collect();
        match round {
            0 => {}
            1 => order.reverse(),
            2 => order.rotate_left(137),
            _ => order.sort_by_key(|n| (n * 7919) % COUNT),
        }
        let entry = |n: &usize| {
            let id = if n.is_multiple_of(3) { String::new() } else { format!(" tvg-id=\"c{n}\"") };
            let name =
                if (n + round).is_multiple_of(5) { format!("Renamed {round} {n}") } else { format!("Channel {n}") };
            format!(
                "#EXTINF:-1{id} group-title=\"G{}\",{name}\nhttp://tv.example/{n}.ts?token={round}\n",
                (n + round) % 9
            )
        };
        format!("#EXTM3U\n{}", order.iter().map(entry).collect::<String>())
    };
    let body = with_rights(json!({"kind": "m3u", "name": "L"}));
    let created = expect_success(upload(&server, Method::POST, SOURCES, &body, list(0).as_bytes()).await, 201).await;
    let first = ids_by_url(&server).await;
    assert_eq!(first.len(), COUNT);
    let target = format!("{SOURCES}/{}", created["source"]["id"]);
    for round in 1..=3 {
        let body = json!({"attestation": {"authorized": true}});
        let refreshed = upload(&server, Method::PATCH, &target, &body, list(round).as_bytes()).await;
        assert_eq!(expect_success(refreshed, 200).await["source"]["counts"]["channels"], json!(COUNT));
        assert_eq!(ids_by_url(&server).await, first, "after refresh {round}");
    }
    assert_eq!(server.service.channels.all().len(), COUNT, "no channel was added");
}
