//! Bugs that schedulers had, each as a test that the old rule fails and the present one passes.
