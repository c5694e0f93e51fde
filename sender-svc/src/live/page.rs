//! The page on which to try the live channel, where --live-page asks for it: the files of examples/live as they are.
//!
//! Nothing in it is of a user, so it is served to everybody: mount it outside the layer that wants a token. The token is given
//! to the page in the browser, by the fragment of its address, which no server sees.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::get;

/// Nothing but what we serve, and nothing inline; no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Clone, Copy)]
struct File {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const FILES: [File; 4] = [
    File {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("../../../examples/live/page/index.html"),
    },
    File {
        path: "/page.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../../../examples/live/page/page.css"),
    },
    File {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../../../examples/live/page/page.js"),
    },
    // The client that is there to be copied, so that the page shows that it works.
    File {
        path: "/bongsu-live.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../../../examples/live/bongsu-live.js"),
    },
];

impl File {
    fn answer(self) -> ([(HeaderName, &'static str); 5], &'static str) {
        let headers = [
            (CONTENT_TYPE, self.content_type),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-cache"),
        ];
        (headers, self.text)
    }
}

/// The page at `/`, and what it consists of.
pub fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(move || std::future::ready(file.answer())))
    })
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, Response, StatusCode};
    use tower::ServiceExt as _;

    use super::*;

    async fn fetch(path: &str) -> Response<Body> {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        router().oneshot(request).await.expect("an answer")
    }

    async fn text(path: &str) -> String {
        let answer = fetch(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let body = to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
        String::from_utf8(body.to_vec()).expect("UTF-8")
    }

    /// What stands between `before` and the next quote, wherever it does.
    fn quoted(text: &str, before: &str) -> Vec<String> {
        let rests = text.split(before).skip(1);
        rests.filter_map(|rest| rest.split(['"', '\'']).next()).map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn all_that_the_page_loads_is_served_beside_it() {
        let page = text("/").await;
        let mut loaded = [quoted(&page, "href=\""), quoted(&page, "src=\"")].concat();
        loaded.retain(|path| path != "data:,");
        assert_eq!(loaded, ["page.css", "page.js"]);
        loaded.extend(quoted(&text("/page.js").await, " from './"));
        assert_eq!(loaded.last().map(String::as_str), Some("bongsu-live.js"));
        for path in loaded {
            text(&format!("/{path}")).await;
        }
        assert_eq!(fetch("/page/index.html").await.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn the_page_runs_no_script_but_ours_and_takes_texts_for_texts() {
        for file in FILES {
            let answer = fetch(file.path).await;
            let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text");
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
            for sink in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\""]
            {
                assert!(!file.text.contains(sink), "{sink} in {}", file.path);
            }
        }
    }
}
