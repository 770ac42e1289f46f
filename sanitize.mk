# The kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer.
.PHONY: sanitize
sanitize: $(VENV)/installed
	$(BIN)/pip install --quiet "nanobind>=2.4" cmake
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/sanitize.sh $(BIN)/python
