//! Pipeline texts: each one can be built, its graph equals the golden one, and the gallery shows it.

use std::path::Path;

use hearthcast::engine::elements;
use hearthcast::engine::gst::{gallery, text, trials};

#[test]
fn every_pipeline_is_built_with_every_encoder_that_works_here() {
    elements::missing().unwrap();
    let working: Vec<_> = trials().filter(|(_, trial)| trial.is_ok()).map(|(slot, _)| slot).collect();
    assert!(working.contains(&gallery::everyday()), "{:?}", trials().collect::<Vec<_>>());
    for slot in working {
        for text in text::ALL {
            gallery::graph(text.name, slot).expect("a name of the list").unwrap();
        }
    }
    for (slot, trial) in trials() {
        assert!(trial.as_ref().err().is_none_or(|why| !why.is_empty()), "{}", slot.element);
    }
}

#[test]
fn graphs_are_the_golden_ones() {
    elements::missing().unwrap();
    for text in text::ALL {
        let graph = gallery::graph(text.name, gallery::everyday()).unwrap().unwrap();
        insta::assert_snapshot!(text.name, graph.text());
    }
}

#[test]
fn the_gallery_shows_the_texts_as_they_are() {
    elements::missing().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/README.md");
    let page = gallery::page().unwrap();
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page, "scripts/bless updates the page");
}
