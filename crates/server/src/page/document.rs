//! The page as a whole, as the first answer and a browser without JavaScript get it.

use super::sections::{PARTS, Sections};
use super::words::escape;

/// The page, with `{{name}}` where something is filled in.
const TEMPLATE: &str = include_str!("assets/page.html");

/// Returns the HTML of the page.
pub fn document(sections: &Sections) -> String {
    let mut out = String::with_capacity(TEMPLATE.len() + 32_000);
    // In one pass, so that text from outside cannot name a place.
    let mut pieces = TEMPLATE.split("{{");
    out.extend(pieces.next());
    for piece in pieces {
        let (name, text) = piece.split_once("}}").expect("the template is a constant");
        match name {
            "title" => out.push_str(&escape(&sections.title)),
            "stage" => out.push_str(sections.stage),
            "version" => out.push_str(&escape(&sections.version)),
            "reload" => out.push_str(reload(sections.stage)),
            _ => {
                let part = PARTS.iter().position(|part| *part == name);
                out.push_str(&sections.parts[part.expect("the template is a constant")]);
            }
        }
        out.push_str(text);
    }
    out
}

/// Returns after how many seconds a page without JavaScript reloads itself.
fn reload(stage: &str) -> &'static str {
    match stage {
        "finished" | "stopped" | "failed" | "serving" => "60",
        _ => "5",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_place() {
        let parts = PARTS.map(|part| format!("<i>{part}</i>{{{{log}}}}"));
        let title = "<1 %".to_string();
        let stage = "syncing";
        let html = document(&Sections { title, stage, parts, ..Sections::default() });
        for part in PARTS {
            assert_eq!(html.matches(&format!("<i>{part}</i>{{{{log}}}}")).count(), 1, "{part}");
            assert!(html.contains(&format!("data-part=\"{part}\"")), "{part}");
        }
        assert!(html.contains("<title>&lt;1 %</title>") && html.contains("content=\"5\""));
    }

    #[test]
    fn nothing_comes_from_another_host() {
        for text in [
            TEMPLATE,
            include_str!("assets/page.css"),
            include_str!("assets/page.js"),
            include_str!("assets/page.svg"),
        ] {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || !text.contains("http"), "{text}");
            // Neither is there an inline style or script, which the policy forbids.
            assert!(!text.contains("style=") && !text.contains("onclick"), "{text}");
        }
    }
}
