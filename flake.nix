{
  description = "Hearthcast: your own films, series and music on every screen, and as television";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      eachSystem =
        make: nixpkgs.lib.genAttrs systems (system: make system nixpkgs.legacyPackages.${system});

      # GStreamer finds plugins only through GST_PLUGIN_SYSTEM_PATH_1_0; it does not search the Nix store.
      plugins =
        pkgs: with pkgs.gst_all_1; [
          gstreamer
          gst-plugins-base
          gst-plugins-good
          gst-plugins-bad
          gst-plugins-ugly
          gst-libav
        ];
      pluginPath = pkgs: nixpkgs.lib.makeSearchPathOutput "lib" "lib/gstreamer-1.0" (plugins pkgs);

      package =
        pkgs:
        pkgs.rustPlatform.buildRustPackage {
          pname = "hearthcast";
          version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          buildFeatures = [ "cluster" "otlp" ];
          nativeBuildInputs = [
            pkgs.pkg-config
            pkgs.makeWrapper
            pkgs.installShellFiles
          ];
          buildInputs = plugins pkgs;
          # The tests need a browser and their own network; scripts/test runs them.
          doCheck = false;
          postInstall = ''
            $out/bin/hearthcast manual manual
            installManPage manual/man1/*.1
            installShellCompletion manual/hearthcast.bash manual/hearthcast.fish manual/_hearthcast
            wrapProgram $out/bin/hearthcast \
              --prefix GST_PLUGIN_SYSTEM_PATH_1_0 : "${pluginPath pkgs}" \
              --prefix PATH : "${nixpkgs.lib.makeBinPath [ pkgs.ffmpeg ]}"
          '';
          meta = {
            description = "Media server that plays a library in every player, and as television";
            license = with nixpkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "hearthcast";
            platforms = systems;
          };
        };
    in
    {
      packages = eachSystem (_: pkgs: rec {
        hearthcast = package pkgs;
        default = hearthcast;

        # The container image; assets/container/Containerfile builds the same from Debian's packages.
        image = pkgs.dockerTools.buildLayeredImage {
          name = "hearthcast";
          tag = hearthcast.version;
          contents = [ pkgs.cacert ];
          # /tmp, and the folders that volumes are mounted over.
          fakeRootCommands = ''
            install -d -m 1777 tmp
            install -d -o 847 -g 847 -m 700 var/lib/hearthcast var/cache/hearthcast
          '';
          config = {
            User = "847:847";
            Entrypoint = [ (nixpkgs.lib.getExe hearthcast) ];
            Cmd = [ "serve" ];
            Env = [
              "HEARTHCAST_LISTEN=0.0.0.0:8470"
              "HEARTHCAST_STATE=/var/lib/hearthcast"
              "HEARTHCAST_CACHE=/var/cache/hearthcast"
            ];
            ExposedPorts."8470/tcp" = { };
            Volumes = {
              "/var/lib/hearthcast" = { };
              "/var/cache/hearthcast" = { };
            };
            Healthcheck = {
              Test = [
                "CMD"
                (nixpkgs.lib.getExe hearthcast)
                "health"
              ];
              # Nanoseconds.
              Interval = 30 * 1000 * 1000 * 1000;
              Timeout = 10 * 1000 * 1000 * 1000;
              StartPeriod = 30 * 1000 * 1000 * 1000;
            };
          };
        };
      });

      apps = eachSystem (system: _: {
        default = {
          type = "app";
          program = "${self.packages.${system}.default}/bin/hearthcast";
        };
      });

      devShells = eachSystem (_: pkgs: {
        default = pkgs.mkShell {
          packages = (plugins pkgs) ++ [
            pkgs.cargo
            pkgs.cargo-deny
            pkgs.chromium
            pkgs.clippy
            pkgs.curl
            pkgs.ffmpeg
            pkgs.firefox-esr
            pkgs.nats-server
            pkgs.nginx
            pkgs.nodejs
            pkgs.pkg-config
            pkgs.postgresql
            pkgs.rustc
            pkgs.rustfmt
            pkgs.shellcheck
          ];
          GST_PLUGIN_SYSTEM_PATH_1_0 = pluginPath pkgs;
        };
      });

      nixosModules.default = import ./assets/nix/module.nix self;

      # Virtual machines, so only where Linux runs them.
      checks = eachSystem (
        _: pkgs: {
          module = pkgs.testers.runNixOSTest (import ./assets/nix/test.nix self);
        }
      );
    };
}
