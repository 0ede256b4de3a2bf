# make            the driver: build/tpuc
# make test       everything that can be checked: ends with "N passed, N failed"
# make demo       one example on one screen
# make bench      speeds (Google Benchmark)
# make golden     writes golden/ and the output that README files show anew
# make format     clang-format over all sources
# make install    PREFIX (default /usr/local)
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
PYTHON ?= /usr/bin/python3

.PHONY: all packages configure test demo bench golden format install clean

all: configure
	@cmake --build $(BUILD) --target tpuc -j $(JOBS)

packages:
	@sh tests/install_packages.sh

configure: packages
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release > $(BUILD).log || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

test: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@$(PYTHON) tests/all.py --build $(BUILD)

demo: all
	@$(BUILD)/tpuc run examples/mini_attention.hlo --check --stats

bench: configure
	@cmake --build $(BUILD) --target tpuc_bench -j $(JOBS)
	@$(BUILD)/tpuc_bench --benchmark_min_time=0.5

golden: all
	@$(PYTHON) tests/golden.py --tpuc $(BUILD)/tpuc --update
	@$(PYTHON) tests/readme.py --tpuc $(BUILD)/tpuc --update

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

install: all
	@install -D -m 755 $(BUILD)/tpuc $(DESTDIR)$(PREFIX)/bin/tpuc

clean:
	@rm -rf $(BUILD) build-asan build-fuzz build-coverage
