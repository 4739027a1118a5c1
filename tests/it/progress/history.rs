//! `/api/stream/history` and `/api/stream/next-up`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{delete, get, route_with_path, save, small_film};
use crate::kit;
use crate::kit::response::expect_error;

const ROUTE: &str = "/api/stream/history";

fn file_names(answer: &Value) -> Vec<&str> {
    let records = answer["history"].as_array().unwrap();
    records.iter().map(|record| record["mediaPath"].as_str().unwrap().rsplit('/').next().unwrap()).collect()
}

#[tokio::test]
async fn history_lists_newest_first_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let empty = get(&server, ROUTE).await;
    assert_eq!(empty, json!({"history": [], "limit": 20, "total": 0, "nextCursor": null}));
    let mut films = Vec::new();
    for n in 0..5 {
        films.push(small_film(folder.path(), &format!("{n}.mp4"), 10 + n));
    }
    for film in &films {
        server.service.clock.advance(Duration::from_secs(1));
        save(&server, film, 100.0, json!({})).await;
    }
    save(&server, &films[1], 5400.0, json!({"completed": true, "mediaType": "recording"})).await;
    server.service.clock.advance(Duration::from_secs(1));
    save(&server, &films[0], 0.0, json!({"version": 1})).await;

    let all = get(&server, ROUTE).await;
    assert_eq!(file_names(&all), ["0.mp4", "1.mp4", "4.mp4", "3.mp4", "2.mp4"], "same time: sorted by path");
    assert!(all["history"].as_array().unwrap().iter().all(|record| record["available"] == true));
    assert_eq!((&all["total"], &all["nextCursor"]), (&json!(5), &json!(null)));

    let (mut names_by_page, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("{ROUTE}?limit=2{cursor}")).await;
        assert_eq!((&page["limit"], &page["total"]), (&json!(2), &json!(5)));
        names_by_page.extend(file_names(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names_by_page, ["0.mp4", "1.mp4", "4.mp4", "3.mp4", "2.mp4"]);

    for (filter, expected) in [
        ("status=all", vec!["0.mp4", "1.mp4", "4.mp4", "3.mp4", "2.mp4"]),
        ("status=in_progress", vec!["4.mp4", "3.mp4", "2.mp4"]),
        ("status=completed", vec!["1.mp4"]),
        ("mediaType=recording", vec!["1.mp4"]),
        ("mediaType=audio", vec![]),
        ("mediaType=movie", vec![]),
        ("mediaType=video&status=in_progress&limit=1", vec!["4.mp4"]),
    ] {
        assert_eq!(file_names(&get(&server, &format!("{ROUTE}?{filter}")).await), expected, "{filter}");
    }
    assert_eq!(get(&server, &format!("{ROUTE}?limit=1000")).await["limit"], 200);
    for wrong in
        ["limit=0", "limit=-1", "limit=two", "limit=1.5", "cursor=x", "cursor=MSAy", "status=none", "mediaType=a%00"]
    {
        expect_error(server.get(&format!("{ROUTE}?{wrong}")).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    }

    // Entries of deleted files stay and say so; entries deleted by the user are gone.
    std::fs::remove_file(&films[4]).unwrap();
    delete(&server, &route_with_path("/api/stream/progress", &films[0])).await;
    let remaining = get(&server, ROUTE).await;
    assert_eq!((file_names(&remaining), &remaining["total"]), (vec!["1.mp4", "4.mp4", "3.mp4", "2.mp4"], &json!(4)));
    let available: Vec<bool> =
        remaining["history"].as_array().unwrap().iter().map(|record| record["available"].as_bool().unwrap()).collect();
    assert_eq!(available, [true, false, true, true]);
}

#[tokio::test]
async fn next_up_is_the_episode_after_the_last_completed_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let season = folder.path().join("Show/Season 1");
    let films = folder.path().join("films");
    std::fs::create_dir_all(&season).unwrap();
    std::fs::create_dir_all(&films).unwrap();
    let episodes: Vec<_> =
        [1, 2, 3, 10].iter().map(|n| small_film(&season, &format!("Show S01E{n}.mp4"), *n)).collect();
    let alien = small_film(&films, "Alien (1979).mp4", 20);
    small_film(&films, "Brazil (1985).mp4", 21);
    let next = async || -> Vec<String> {
        let answer = get(&server, "/api/stream/next-up").await;
        let items = answer["nextUp"].as_array().unwrap().iter();
        items.map(|item| item["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(next().await, Vec::<String>::new());
    save(&server, &episodes[0], 100.0, json!({})).await;
    assert_eq!(next().await, Vec::<String>::new(), "the episode is still being watched");
    for (n, expected) in [(0, "Show S01E2"), (1, "Show S01E3"), (2, "Show S01E10")] {
        server.service.clock.advance(Duration::from_secs(1));
        save(&server, &episodes[n], 5400.0, json!({"completed": true})).await;
        assert_eq!(next().await, [expected]);
    }
    server.service.clock.advance(Duration::from_secs(1));
    save(&server, &alien, 5400.0, json!({"completed": true})).await;
    assert_eq!(next().await, ["Show S01E10"], "films with different names are not a series");
    save(&server, &episodes[3], 60.0, json!({})).await;
    let answer = get(&server, "/api/stream/next-up?limit=5").await;
    assert_eq!(answer["limit"], 5);
    assert_eq!(answer["nextUp"][0]["progress"]["positionSeconds"], 60.0);
    assert_eq!(answer["nextUp"][0]["after"]["mediaPath"], json!(episodes[2]));
    save(&server, &episodes[3], 5400.0, json!({"completed": true})).await;
    assert_eq!(next().await, Vec::<String>::new(), "the season is over");
}
