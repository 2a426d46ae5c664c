//! The console of a VM: what it has printed, or a terminal at it.

use super::answer::{escaped, failed};
use super::args::ConsoleArgs;
use crate::cli::failure::Failure;
use crate::cli::{output, terminal};
use hyper::Method;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stile_api::{VmDetails, VmInfo, VmKind, VmState};
use stile_client::Client;

/// How long output is waited for before the keyboard and the VM are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn console(args: &ConsoleArgs) -> Result<(), Failure> {
    let client = args.node.client()?;
    let vm = escaped(&args.vm);
    if !args.attach {
        let text = client.get_bytes(&format!("/v1/vms/{vm}/console")).map_err(failed)?;
        return std::io::stdout().lock().write_all(&text).map_err(output::failure);
    }
    let details: VmDetails = client.get(&format!("/v1/vms/{vm}")).map_err(failed)?;
    let quit = Arc::new(AtomicBool::new(false));
    let socket = args.node.socket.clone().unwrap_or_else(stile_serve::default_path);
    let takes_keys = details.info.kind == VmKind::Linux && details.info.state != VmState::Stopped;
    let _raw = takes_keys.then(|| keyboard(socket, vm.clone(), &quit)).transpose()?;
    let mut pieces = client.pieces(&format!("/v1/vms/{vm}/console/follow")).map_err(failed)?;
    while let Some(piece) = pieces.next_within(LOOK_EVERY) {
        let piece = piece.map_err(failed)?;
        let mut out = std::io::stdout().lock();
        out.write_all(&piece).and_then(|()| out.flush()).map_err(output::failure)?;
        if quit.load(Ordering::Relaxed) || (piece.is_empty() && has_ended(&client, &vm)) {
            break;
        }
    }
    Ok(())
}

fn has_ended(client: &Client, vm: &str) -> bool {
    let details = client.get::<VmDetails>(&format!("/v1/vms/{vm}"));
    details.map_or(true, |VmDetails { info: VmInfo { state, .. }, .. }| state == VmState::Stopped)
}

/// Sends what is typed to the VM, on a thread, and makes the terminal deliver keys one by one until the result is
/// dropped.
fn keyboard(socket: PathBuf, vm: String, quit: &Arc<AtomicBool>) -> Result<terminal::Raw, Failure> {
    let raw = terminal::Raw::enter().map_err(Failure::run)?;
    let has_terminal = std::io::stdin().is_terminal();
    let quit = Arc::clone(quit);
    let client = Client::new(&socket).map_err(Failure::run)?;
    // It may wait for a key for ever, and ends with the program.
    std::thread::Builder::new()
        .name("keyboard".into())
        .spawn(move || {
            let mut escape = terminal::Escape::default();
            let (mut chunk, mut input) = ([0; 256], std::io::stdin().lock());
            while let Ok(length @ 1..) = input.read(&mut chunk) {
                let mut keys = Vec::with_capacity(length);
                match has_terminal {
                    true if chunk[..length].iter().any(|key| escape.take(*key, &mut keys)) => {
                        quit.store(true, Ordering::Relaxed);
                        return;
                    }
                    true => {}
                    false => keys.extend_from_slice(&chunk[..length]),
                }
                match client.send_bytes(Method::POST, &format!("/v1/vms/{vm}/console"), Some(keys)) {
                    Ok(()) => {}
                    // Keys are lost as on a line that nobody reads. The ones that end the terminal still come.
                    Err(_) if has_terminal => {}
                    Err(error) => {
                        failed(error).tell();
                        return;
                    }
                }
            }
        })
        .map_err(Failure::run)?;
    Ok(raw)
}
