//! Pipeline texts: each one can be built, its graph equals the golden one, and the gallery shows it.

use std::path::Path;

use hearthcast::engine::gst::{self, gallery, launch_text, run_trials};
use hearthcast::engine::worker::message::TrialScope;

#[test]
fn every_pipeline_can_be_built_with_every_working_encoder() {
    gst::initialize().unwrap();
    let working = run_trials(TrialScope::All).filter(|(_, trial)| trial.is_ok());
    let working: Vec<_> = working.filter_map(|(row, _)| Some((row.codec, row.gstreamer.as_ref()?))).collect();
    let has_default = working.iter().any(|(_, encoder)| *encoder == gallery::default_encoder());
    assert!(has_default, "{:?}", run_trials(TrialScope::All).collect::<Vec<_>>());
    for (codec, encoder) in working {
        for text in launch_text::ALL.iter().filter(|text| text.takes_encoder_of(codec)) {
            gallery::pipeline_graph(text.name, encoder).expect("a name of the list").unwrap();
        }
    }
    for (encoder, trial) in run_trials(TrialScope::All) {
        assert!(trial.as_ref().err().is_none_or(|reason| !reason.is_empty()), "{}", encoder.name);
    }
}

#[test]
fn graphs_equal_the_golden_ones() {
    gst::initialize().unwrap();
    for text in launch_text::ALL {
        let graph = gallery::pipeline_graph(text.name, gallery::default_encoder()).unwrap().unwrap();
        insta::assert_snapshot!(text.name, graph.to_text());
    }
}

#[test]
fn the_gallery_is_up_to_date() {
    gst::initialize().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/README.md");
    let page = gallery::render_page().unwrap();
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page, "scripts/bless updates the page");
}
