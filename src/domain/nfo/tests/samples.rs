//! NFO files as programs write them, with invented content.

/// Kodi's own export, indented, with streams and artwork.
pub(super) const KODI_MOVIE: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>
<!--created on 2024-02-11 21:30:05-->
<movie>
    <title>The Lighthouse &amp; the Sea</title>
    <originaltitle>Le Phare et la mer</originaltitle>
    <sorttitle>Lighthouse &amp; the Sea, The</sorttitle>
    <ratings>
        <rating name="metacritic" max="100">
            <value>68.000000</value>
            <votes>0</votes>
        </rating>
        <rating name="imdb" max="10" default="true">
            <value>7.400000</value>
            <votes>12345</votes>
        </rating>
    </ratings>
    <userrating>8</userrating>
    <top250>0</top250>
    <outline></outline>
    <plot>A guard counts ships.
      One night, &quot;nothing&quot; answers.</plot>
    <tagline>Count again.</tagline>
    <runtime>97</runtime>
    <thumb spoof="" cache="" aspect="poster" preview="https://example.com/p/1.jpg">https://example.com/1.jpg</thumb>
    <fanart>
        <thumb colors="" preview="">https://example.com/f.jpg</thumb>
    </fanart>
    <mpaa>Rated PG-13</mpaa>
    <playcount>1</playcount>
    <lastplayed>2024-02-10</lastplayed>
    <id>tt0000001</id>
    <uniqueid type="imdb" default="true">tt0000001</uniqueid>
    <uniqueid type="tmdb">4321</uniqueid>
    <genre>Drama</genre>
    <genre>Mystery</genre>
    <tag>sea</tag>
    <tag>lighthouse</tag>
    <country>France</country>
    <set>
        <name>Sea Trilogy</name>
        <overview>Three films by the sea.</overview>
    </set>
    <credits>Ada Moreau</credits>
    <credits>Jan Ek</credits>
    <director>Ada Moreau</director>
    <premiered>1998-10-02</premiered>
    <year>1998</year>
    <studio>Northern Films</studio>
    <studio>Second Studio</studio>
    <trailer></trailer>
    <fileinfo>
        <streamdetails>
            <video>
                <codec>h264</codec>
                <aspect>1.850000</aspect>
                <durationinseconds>5820</durationinseconds>
            </video>
            <audio><codec>ac3</codec><language>fre</language><channels>6</channels></audio>
        </streamdetails>
    </fileinfo>
    <actor>
        <name>Ines Dahl</name>
        <role>The guard</role>
        <order>0</order>
        <thumb>https://example.com/a.jpg</thumb>
    </actor>
    <actor>
        <name>Tom Reyes</name>
        <role></role>
        <order>1</order>
    </actor>
    <resume>
        <position>0.000000</position>
        <total>0.000000</total>
    </resume>
    <dateadded>2024-01-01 12:00:00</dateadded>
</movie>
"#;

/// Radarr's, in one line, with the address of the film after it.
pub(super) const RADARR_MOVIE: &str = concat!(
    "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?><movie><title>Paper Boats</title>",
    "<ratings><rating name=\"themoviedb\" max=\"10\" default=\"true\"><value>6.1</value><votes>210</votes></rating>",
    "<rating name=\"imdb\" max=\"10\"><value>6.4</value><votes>1800</votes></rating>",
    "<rating name=\"rottentomatoes\" max=\"100\"><value>71</value></rating></ratings><rating>6.1</rating>",
    "<plot>Boats of paper.</plot><tmdbid>77</tmdbid><imdbid>tt0000077</imdbid>",
    "<uniqueid type=\"tmdb\" default=\"true\">77</uniqueid><genre>Animation</genre>",
    "<premiered>2004-05-06</premiered><set><name>Boats Collection</name></set></movie>\r\n",
    "https://www.example.com/movie/77?language=de&source=radarr"
);

/// By Sonarr, of a file with two episodes.
pub(super) const SONARR_EPISODES: &str = r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<episodedetails>
  <title>Fog, Part 1</title>
  <season>2</season>
  <episode>5</episode>
  <aired>2011-03-04</aired>
  <plot>The harbour closes.</plot>
  <uniqueid type="sonarr" default="true">9001</uniqueid>
  <watched>false</watched>
</episodedetails>
<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<episodedetails>
  <title>Fog, Part 2</title>
  <season>2</season>
  <episode>6</episode>
  <aired>2011-03-04</aired>
  <plot>The harbour opens.</plot>
</episodedetails>
"#;

/// tinyMediaManager's, of a special.
pub(super) const TMM_EPISODE: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<!--created on 2023-07-01 08:00:00 - tinyMediaManager 4.3.12-->
<episodedetails>
  <title>Making of the Harbour</title>
  <originaltitle/>
  <showtitle>Harbour Watch</showtitle>
  <season>0</season>
  <episode>3</episode>
  <displayseason>-1</displayseason>
  <displayepisode>-1</displayepisode>
  <id>55501</id>
  <uniqueid default="true" type="tvdb">55501</uniqueid>
  <ratings>
    <rating default="true" max="10" name="tvdb">
      <value>7.5</value>
      <votes>2</votes>
    </rating>
  </ratings>
  <userrating>0.0</userrating>
  <plot>How it was made.</plot>
  <runtime>24</runtime>
  <mpaa/>
  <premiered>2012-01-01</premiered>
  <aired>2012-01-01</aired>
  <watched>false</watched>
  <playcount>0</playcount>
  <credits tvdbid="1">Li Wen</credits>
  <credits tvdbid="2">Max Orr</credits>
  <director>Eva Lund</director>
  <source>UNKNOWN</source>
  <original_filename>hw.s00e03.mkv</original_filename>
  <user_note/>
</episodedetails>
"#;

/// Kodi's, of a show.
pub(super) const KODI_SHOW: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>
<tvshow>
    <title>Harbour Watch</title>
    <showtitle>Harbour Watch</showtitle>
    <season>3</season>
    <episode>24</episode>
    <plot>Crime by the water.</plot>
    <genre>Crime</genre>
    <premiered>2009-09-09</premiered>
    <status>Ended</status>
    <namedseason number="1">First</namedseason>
    <episodeguide>{"tvdb": "123"}</episodeguide>
    <uniqueid type="tvdb" default="true">123</uniqueid>
</tvshow>
"#;
