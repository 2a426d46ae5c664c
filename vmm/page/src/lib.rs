//! The page that shows a node in a browser, live: `index.html`, one file without a build step.
//!
//! It reads `/v1`, `/v1/frames?interval=1s` and `/v1/events` of the server that it comes from, and changes nothing.
//! Cells of its tables name their figures in `data-` attributes, so that tests can read them:
//! `td[data-vm="web"][data-figure="run"]`, `[data-node="policy"]`, `[data-connection]`, `[data-pcpu="0"]`,
//! `[data-event]`.

/// The page.
pub const PAGE: &str = include_str!("../index.html");

/// The value of the header `Content-Security-Policy` that it is to be served with. Names of VMs are foreign text: what
/// they might bring into the page could load and send nothing.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
