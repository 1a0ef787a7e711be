"""How the facts of `corpus_facts.py` are said: for every field a label, a question, three sentences, two remarks.

{S} is the entity at the start of a sentence, {s} inside one, {v} the value. The third sentence uses a pronoun. The
remarks hold for every entity of the kind; responses grow longer by them.
"""


# fmt: off
# ruff: noqa: E501 - one field a line

# kind -> field -> (label, question, sentence, sentence, sentence with a pronoun, remark, remark)
_PHRASE_TEXT = {
    "animal": """
Group|What kind of animals are {s}?|{S} are {v}.|Zoologists will tell you that {s} are {v}.|They are {v}.|Knowing what kind of animal we are dealing with explains a good deal about how it lives.|Relatives in the same group often share the same habits, even on different continents.
Habitat|Where do {s} live?|{S} live {v}.|You will find {s} {v}.|They make their home {v}.|The place where an animal lives shapes almost everything else about it, from its diet to its coat.|When a habitat shrinks, the animals that depend on it are usually the first to show it.
Diet|What do {s} eat?|{S} eat {v}.|The diet of {s} is {v}.|They feed on {v}.|What is on the menu can vary a little with the season and with what is within reach.|Teeth, beak or stomach tend to be well suited to such a diet.
Weight|How much do {s} weigh?|{S} weigh about {v} kg when fully grown.|A typical adult among {s} weighs about {v} kg.|As adults they weigh about {v} kg.|Individuals differ, of course, and males and females often differ as well.|Weight matters in the wild, because a heavy body keeps warm more easily but needs more food.
Lifespan|How long do {s} live?|{S} live for {v}.|The lifespan of {s} is {v}.|They usually live for {v}.|In captivity, with regular food and a vet at hand, many animals live somewhat longer.|The first year is the most dangerous one for nearly every wild animal.
Young|How many young do {s} have?|{S} usually have {v}.|As for offspring, {s} have {v}.|They raise {v}.|Having few young and caring for them well is one strategy; having many is another.|The parents need a lot of energy during this time, so it tends to fall in a season with plenty of food.
Special skill|What are {s} especially good at?|{S} can {v}.|What makes {s} remarkable is that they can {v}.|They are able to {v}.|It takes practice, and the young often learn it by watching.|Skills like this one are the result of a very long evolution.
Body|What is special about the body of {s}?|{S} have {v}.|A well-known feature of {s}: they have {v}.|They also have {v}.|Features like this are rarely an accident; they help the animal to survive where it lives.|Researchers have looked at this feature closely, and engineers have tried to copy some of its tricks.
""",
    "city": """
Role|What is {s}?|{S} is {v}.|Officially speaking, {s} is {v}.|It is {v}.|That explains why visitors come for many different reasons, and not only for the sights.|Such a role brings offices, universities and museums with it.
Location|Where does {s} lie?|{S} lies {v}.|You will find {s} {v}.|It lies {v}.|A look at the map before the trip helps a great deal, as the site decides where the old quarters are.|Locations like this one were chosen for trade and defence, long before tourists came for the view.
Population|How many people live in {s}?|{S} has about {v} million inhabitants.|About {v} million people live in {s}.|It is home to about {v} million people.|The figure is for the city proper; the wider urban area has more people.|Numbers like these change from year to year, so take them as a rough guide.
Landmark|What is the best-known sight in {s}?|The best-known sight in {s} is {v}.|Nobody should leave {s} without seeing {v}.|Its best-known sight is {v}.|Early morning is the best time to see it without the crowds.|It looks quite different in the evening, when the lights come on.
Local dish|What should one eat in {s}?|A dish to try in {s} is {v}.|If you eat only one local thing in {s}, make it {v}.|Its kitchens are known for {v}.|Ask for a place away from the main square, where the prices are usually lower.|Every family has its own way of making it, and opinions differ about the right one.
Getting around|What is special about getting around in {s}?|Visitors to {s} soon notice {v}.|For getting around, {s} has {v}.|For transport it has {v}.|A day ticket often pays off after three trips or so.|Walking is a good alternative in the centre, where distances are short.
Weather|What is the weather like in {s}?|{S} has {v}.|Expect {v} in {s}.|It has {v}.|A light jacket that you can take off again is rarely a mistake.|The weeks between the seasons are often the most pleasant ones for a visit.
History|What should I know about the history of {s}?|{S} {v}.|History books record that {s} {v}.|In the past it {v}.|Traces of that time can still be seen in the streets today.|The city museum tells this part of the story with maps and models.
""",
    "food": """
Making|How is {s} made?|{S} is made {v}.|The usual way to get {s}: it is made {v}.|It is made {v}.|Small differences at this stage decide about flavour and texture.|The method is old, even if modern machines have taken over much of the work.
Origin|Where does {s} come from?|{S} comes originally from {v}.|The history of {s} leads back to {v}.|It comes originally from {v}.|From there it travelled along trade routes, as so many good things did.|Today it is produced in many other regions as well.
Energy|How many calories does {s} have?|{S} has about {v} kcal per 100 grams.|There are about {v} kcal in 100 grams of {s}.|It has about {v} kcal per 100 grams.|The exact figure depends on the brand or the variety, so check the label if it matters to you.|How much of it you eat at one time matters more than the figure as such.
Storage|How should I store {s}?|{S} keeps best {v}.|The right way to store {s} is {v}.|It keeps best {v}.|Light, warmth and moisture are the usual enemies of anything you keep in a kitchen.|Write the date on the package when you open it, and you will never have to guess.
Use|What can I use {s} for?|{S} is good {v}.|Cooks like to use {s} {v}.|It is good {v}.|Start with a small amount, because you can always add more.|Once you have tried it that way, other uses will come to mind.
Nutrients|What is in {s} that matters for nutrition?|{S} is a source of {v}.|From the point of view of nutrition, {s} supplies {v}.|It supplies {v}.|As part of a varied diet that is welcome, though no single food does everything.|Nutrition tables give an average; the real content varies a little.
Tradition|Is there a story behind {s}?|{S} {v}.|An old story says a lot about its place in our culture: {s} {v}.|It {v}.|Stories like this show how closely food and history are connected.|People have valued it for much longer than we have had supermarkets.
Buying|What should I look for when I buy {s}?|When you buy {s}, look for {v}.|Good {s} is easy to recognise: choose {v}.|When you buy it, look for {v}.|A higher price is not always a sign of better quality, so it is worth knowing this.|If you are unsure, ask the person behind the counter.
""",
    "invention": """
Year|When was {s} invented?|{S} dates from about {v}.|The year usually given for {s} is {v}.|It dates from about {v}.|As always with inventions, there was a longer development before and after that year.|Others were working on similar ideas at the time, which is often the case.
Inventor|Who invented {s}?|{S} is credited to {v}.|The credit for {s} goes to {v}.|It is credited to {v}.|Assistants and backers had their part in the success, even if few people remember them.|The name has stayed connected with the invention ever since.
Place|Where was {s} invented?|{S} was developed in {v}.|The place where {s} came into being was {v}.|It was developed in {v}.|A plaque or a small museum often marks such a spot today.|It helped to have skilled craftsmen and willing investors close by.
Purpose|What was {s} meant for?|{S} was meant {v}.|The original purpose of {s} was {v}.|It was meant {v}.|That need was felt by many people, so interest grew quickly.|Other uses were found later that nobody had thought of at first.
Principle|How does {s} work?|{S} relies on {v}.|The idea behind {s} is simple: {v}.|It relies on {v}.|The principle sounds easy, but it took many attempts until it worked reliably.|Once you have seen it in a model or a drawing, you will not forget it.
Before|What was used before {s}?|Before {s}, people relied on {v}.|The forerunner of {s} was {v}.|Before it there was {v}.|The older way did not disappear at once; both existed side by side for years.|Every new technique starts by competing with what people already know.
Effect|What did {s} change?|{S} {v}.|Its effect on everyday life was large: {s} {v}.|It {v}.|Changes of that size are seldom noticed on the day they begin.|Historians like to use it as an example of how technology and society influence each other.
Oddity|Is there something odd about the story of {s}?|A curious detail about {s}: {v}.|Few people know this about {s}: {v}.|Here is a curious detail: {v}.|It is the kind of detail that makes a story easy to remember.|You can surprise people with that at dinner.
""",
    "planet": """
Position|Which place in the solar system does {s} have?|{S} is the planet that comes {v}.|In the order of the planets, {s} comes {v}.|In order it comes {v}.|The position decides how much sunlight arrives, and so a great deal more.|A simple rhyme with the first letters helps to remember the order.
Diameter|How large is {s}?|{S} has a diameter of {v} km at the equator.|Measured at the equator, {s} is {v} km across.|Its diameter at the equator is {v} km.|Numbers of this size are hard to imagine, so comparing two planets helps.|Space probes have measured it much more precisely than telescopes could.
Year|How long is a year on {s}?|A year on {s} lasts {v}.|To go once round the Sun, {s} needs {v}.|One trip round the Sun takes it {v}.|The farther away a planet is, the longer and slower its path becomes.|Johannes Kepler found the law behind this about four centuries ago.
Day|How long is a day on {s}?|A day on {s} lasts {v}.|From one noon to the next, {s} needs {v}.|Its day lasts {v}.|How fast a planet spins also affects its winds and its shape.|The length of the day has a lot to do with how hot and cold it gets.
Distance|How far is {s} from the Sun?|{S} is about {v} from the Sun.|On average, {s} keeps a distance of about {v} from the Sun.|Its average distance from the Sun is about {v}.|This is an average, because no orbit is a perfect circle.|Light covers that distance in minutes or hours, a spacecraft needs months or years.
Surface|What does {s} look like?|From space, {s} shows {v}.|What you see when you look at {s} is {v}.|From space it shows {v}.|The picture depends a little on the camera and its filters.|Even a modest telescope reveals some planets as small discs.
Feature|What is {s} famous for?|{S} is famous for {v}.|What astronomers associate with {s} is {v}.|It is famous for {v}.|The explanation for this took researchers a long time.|Photographs of it appear in nearly every book on astronomy.
Exploration|Has anybody explored {s}?|When people speak of exploring {s}, they may think of {v}.|A name that belongs to the exploration of {s} is {v}.|Its exploration brings to mind {v}.|Missions like that need years of preparation and a good deal of luck.|The data are still being studied by scientists today.
""",
    "instrument": """
Family|Which family does {s} belong to?|{S} belongs to {v}.|Orchestras count {s} among {v}.|It belongs to {v}.|Instruments of one family share a way of making sound, whatever their size.|Players can often move to a relative without starting from the beginning.
Sound|How is sound produced on {s}?|On {s}, sound is produced {v}.|A player gets sound out of {s} {v}.|Its sound is produced {v}.|Beginners need some patience until the tone is clear.|Small changes of pressure make a large difference here.
Special part|Which part of {s} is special?|A part worth knowing on {s} is {v}.|Take a close look at {s} and you will find {v}.|One of its special parts is {v}.|Makers pay close attention to it, since mistakes there are hard to mend.|Many listeners have never noticed it, although it matters a lot.
Material|What is {s} made of?|{S} is usually made of {v}.|Makers build {s} from {v}.|It is usually made of {v}.|Good material has often been stored for years before it is used.|Cheaper versions use other materials and sound accordingly.
Origin|Where does {s} come from?|{S} goes back to {v}.|The roots of {s} lie in {v}.|Its origins lie in {v}.|It has been altered many times since then, sometimes to play louder and sometimes to play in tune.|Museums keep early examples, and a few of them can still be played.
Famous piece|Is there a well-known piece for {s}?|A well-known piece that features {s} is {v}.|To get to know {s}, listen to {v}.|A good piece to hear it in is {v}.|Several recordings are available, and comparing two of them is instructive.|It is a favourite at concerts and at examinations alike.
Role|What does {s} do in an ensemble?|In an ensemble, {s} {v}.|The task of {s} is easy to describe: it {v}.|In an ensemble it {v}.|Composers know this and write for it accordingly.|In smaller groups the same instrument may have quite another task.
Care|How do I look after {s}?|Looking after {s} means {v}.|Owners of {s} should not forget {v}.|Part of its care is {v}.|A few minutes after playing are enough, if you do it regularly.|A neglected instrument loses its value, and its tone, sooner than you might think.
""",
    "metal": """
Symbol|What is the chemical symbol of {s}?|The chemical symbol of {s} is {v}.|Chemists write {s} as {v}.|Its chemical symbol is {v}.|Many symbols come from Latin or Greek names, which is why they can look unfamiliar.|You will find it in any periodic table.
Melting point|When does {s} melt?|{S} melts at {v} °C.|The melting point of {s} is {v} °C.|It melts at {v} °C.|The melting point decides how the metal can be cast and joined.|Alloys can melt at quite different temperatures from those of the pure metals.
Colour|What colour is {s}?|The colour of {s} is {v}.|In its pure state, {s} is {v}.|Its colour is {v}.|A thin layer on the surface can change the look with time.|Colour alone is no proof of identity, though it is a first hint.
Use|What is {s} used for?|{S} is used for {v}.|Typical products made with {s} are {v}.|It is used for {v}.|Price, weight and strength all have to fit before a metal is chosen for a job.|Recycling supplies a growing part of the demand.
Ore|Where does {s} come from in nature?|The main sources of {s} are {v}.|Miners obtain {s} from {v}.|It is obtained from {v}.|Getting the pure metal out takes a lot of energy and care.|Only a few countries have deposits that are worth mining.
Property|What is special about {s}?|What sets {s} apart is that it {v}.|Engineers value or fear {s} for one thing: it {v}.|It {v}.|A property like that opens up uses that no other metal can serve as well.|School experiments often make use of this.
History|What role did {s} play in history?|{S} {v}.|The history books say that {s} {v}.|In history, it {v}.|Metals have shaped whole periods of history, as the names of the ages remind us.|Archaeologists learn much about trade from finds like these.
Atomic number|What is the atomic number of {s}?|The atomic number of {s} is {v}.|In the periodic table, {s} has the number {v}.|Its atomic number is {v}.|It counts the protons in the nucleus, so no two elements share it.|The number also tells you which elements are its neighbours in the table.
""",
    "trade": """
Products|What do {s} make or look after?|{S} provide {v}.|Customers come to {s} for {v}.|They provide {v}.|Regular customers are the best advertisement for such work.|Much of it goes unnoticed as long as it is done well.
Main tool|Which tool do {s} need most?|The tool that {s} need most is {v}.|No day passes without {s} picking up {v}.|The tool they need most is {v}.|A good tool is expensive, but it can last for a whole working life.|Looking after the tools is part of the job.
Materials|Which materials do {s} work with?|{S} work with {v}.|The materials of {s} are {v}.|They work with {v}.|Prices go up and down, so buying at the right moment is a skill in itself.|The quality of the material limits the quality of the result.
Training|What training do {s} need?|To learn their trade, {s} need {v}.|The training of {s} takes {v}.|To learn it they need {v}.|Learning does not stop afterwards, because methods and rules keep changing.|A good teacher matters more than anything else during that time.
Risks|What are the risks for {s}?|A risk that {s} face is {v}.|Doctors who treat {s} know about {v}.|They have to reckon with {v}.|Simple precautions prevent most of the trouble.|Experienced people pass on their advice to beginners for a reason.
Start of the day|How does the day of {s} begin?|{S} start work {v}.|The working day of {s} begins {v}.|They start work {v}.|The rest of the day follows from there.|It is not for everybody, yet many would not want it any other way.
Skill|What must {s} be able to do?|Good {s} can {v}.|What distinguishes {s} with experience is that they can {v}.|They must be able to {v}.|Nobody is born with that; it comes with repetition.|You can read about it, but you only learn it by doing.
Quality check|How do {s} check their work?|To check their work, {s} {v}.|Before anything leaves their hands, {s} {v}.|To be sure of the result, they {v}.|A few minutes spent on this save hours of complaints.|Pride in the work shows at this point.
""",
}

_NAMES = ("label", "question", "sentences", "remarks")

PHRASES = {}  # kind -> one (label, question, (three sentences), (two remarks)) a field, in the order of FIELDS

for _kind, _lines in _PHRASE_TEXT.items():
    PHRASES[_kind] = []
    for _line in _lines.strip().splitlines():
        _label, _question, *_rest = _line.split("|")
        PHRASES[_kind].append((_label, _question, tuple(_rest[:3]), tuple(_rest[3:])))

# Sentences of an expert, true of every entity of the kind: what the edit "jargon" adds.
JARGON = {
    "animal": (
        "From an ecological standpoint, these traits constitute a coherent life-history strategy shaped by selection.",
        "Phenotypic plasticity and intraspecific variation notwithstanding, the underlying physiology is conserved.",
        "Their trophic position and niche breadth largely determine their susceptibility to anthropogenic disturbance.",
    ),
    "city": (
        "Urban morphology of this kind reflects the interplay of topography, jurisdiction and mercantile capital.",
        "Its metropolitan functions are concentrated in a polycentric structure with pronounced centripetal commuting.",
        "The palimpsest of its built fabric attests to successive regimes of spatial planning.",
    ),
    "food": (
        "Organoleptic quality is governed by volatile compounds whose concentrations depend on processing parameters.",
        "Its water activity and pH determine microbial stability and hence the attainable shelf life.",
        "The macronutrient profile should be interpreted in relation to the reference daily intake.",
    ),
    "invention": (
        "Historiography increasingly treats such inventions as socio-technical systems rather than isolated artefacts.",
        "Its diffusion followed the sigmoid trajectory characteristic of general-purpose technologies.",
        "Path dependence and complementary innovations conditioned the pace of its adoption.",
    ),
    "planet": (
        "These parameters are consistent with accretion and differentiation within the protoplanetary disc.",
        "Its orbital eccentricity and axial obliquity modulate the insolation received over one sidereal period.",
        "Spectroscopic and gravimetric data constrain models of its internal stratification.",
    ),
    "instrument": (
        "Acoustically, the spectral envelope is determined by the coupling of the exciter to its resonator.",
        "The relative amplitudes of the upper partials account for its characteristic timbre.",
        "Idiomatic writing exploits the registral and articulatory affordances of the instrument.",
    ),
    "metal": (
        "These macroscopic properties follow from its electronic configuration and crystalline lattice.",
        "Thermodynamically, its standard electrode potential governs the feasible routes of extraction.",
        "Grain-boundary effects and interstitial impurities modify its mechanical behaviour appreciably.",
    ),
    "trade": (
        "Such tacit knowledge is transmitted through situated practice rather than codified instruction.",
        "Occupational standards and liability regimes delimit the practitioner's discretionary scope.",
        "The ergonomics of repetitive manual operations warrant systematic risk assessment.",
    ),
}

# fmt: off
# ruff: noqa: E501 - one entity a line is easier to read and to check than wrapped ones

FIELDS = {
    "animal": ("group", "home", "diet", "weight", "lifespan", "young", "skill", "body"),
    "city": ("role", "site", "population", "landmark", "dish", "transport", "weather", "history"),
    "food": ("making", "origin", "energy", "storage", "use", "nutrient", "tradition", "choice"),
    "invention": ("year", "inventor", "place", "purpose", "principle", "predecessor", "effect", "oddity"),
    "planet": ("order", "diameter", "year", "day", "distance", "surface", "feature", "visit"),
    "instrument": ("family", "sound", "part", "material", "origin", "piece", "role", "care"),
    "metal": ("symbol", "melting", "colour", "use", "ore", "property", "history", "number"),
    "trade": ("product", "tool", "material", "training", "hazard", "start", "skill", "check"),
}

# The field whose values are numbers, by which entities can be sorted, and the unit to print after it.
NUMERIC = {
    "animal": ("weight", "kg"),
    "city": ("population", "million people"),
    "food": ("energy", "kcal"),
    "invention": ("year", ""),
    "planet": ("diameter", "km"),
    "metal": ("melting", "°C"),
}

_TEXT = {
    "animal": """
beavers|rodents|along the rivers and lakes of North America and Europe|bark, twigs and water plants|20|10 to 12 years|three or four kits a year|build dams out of branches and mud|orange front teeth that never stop growing
sea otters|members of the weasel family|in the cold coastal waters of the North Pacific|sea urchins, crabs and clams|30|15 to 20 years|a single pup at a time, carried on the mother's belly|crack shells open with stones|the densest fur of any animal
emperor penguins|flightless seabirds|on the sea ice around Antarctica|fish, krill and squid|35|about 20 years|a single chick a year, hatched on the father's feet|dive more than 500 metres deep|flippers that have become stiff paddles
African elephants|the largest of all land animals|in the savannas and forests of Africa|grass, roots and fruit|5,500|60 to 70 years|one calf every four or five years|dig for water in dry riverbeds|a trunk with some 40,000 muscles
giraffes|the tallest of all land animals|in the open woodland of Africa|acacia leaves and shoots|1,000|about 25 years|one calf after fifteen months of pregnancy|see danger coming from kilometres away|a long neck with only seven bones in it
red kangaroos|the largest of all marsupials|on the dry plains of inland Australia|short green grasses|70|up to 22 years|one joey at a time, raised in the pouch|cover eight metres in a single leap|a thick tail that works like a fifth leg
grey wolves|the largest wild members of the dog family|in the forests and tundra of the northern hemisphere|deer, elk and other hoofed animals|40|6 to 8 years in the wild|four to six pups a year|trot after their prey for many hours|jaws strong enough to crush large bones
blue whales|baleen whales|in nearly all the oceans of the world|krill, up to four tonnes of it a day|130,000|80 to 90 years|one calf every two or three years|call to each other over hundreds of kilometres|a heart of about 180 kilograms
koalas|tree-dwelling pouched mammals|in the eucalyptus forests of eastern Australia|eucalyptus leaves|9|13 to 18 years|one joey, which stays in the pouch for six months|sleep for up to 20 hours a day|fingerprints that look much like ours
giant pandas|black and white bears|in the mountain forests of central China|bamboo, for the most part|110|about 20 years in the wild|one or two cubs every second year|spend up to 14 hours a day eating|a false thumb that has grown from a wrist bone
dromedaries|camels with one hump|in the deserts of North Africa and Arabia|thorny and salty desert plants|500|40 to 50 years|one calf every other year|go without water for more than a week|nostrils that can be closed against the sand
polar bears|the largest of all bears|on the sea ice of the Arctic|ringed and bearded seals|450|25 to 30 years|two cubs every three years or so|smell a seal more than a kilometre away|black skin underneath their pale fur
hedgehogs|small insect-eating mammals|in the gardens, hedges and woods of Europe|beetles, worms and caterpillars|0.8|two to five years|four or five hoglets in a litter|roll up into a tight ball|several thousand stiff spines
ostriches|the largest of all living birds|on the open plains of Africa|seeds, shoots and the odd lizard|120|30 to 40 years|one brood a year from a shared nest|run at 70 kilometres an hour|two toes on each foot
""",
    "city": """
Budapest|the capital of Hungary|on both banks of the Danube|1.7|the domed Parliament beside the river|goulash, a beef soup with paprika|the first underground line on the European mainland, opened in 1896|hot summers and cold, grey winters|was formed in 1873 from Buda, Óbuda and Pest
Lisbon|the capital of Portugal|where the Tagus meets the Atlantic|0.55|the Belém Tower|custard tarts, which are called pastéis de nata|yellow trams that climb the steep old streets|dry, sunny summers and mild, rainy winters|was rebuilt after the great earthquake of 1755
Vienna|the capital of Austria|on the Danube, at the edge of the Alpine foothills|2.0|Schönbrunn Palace|thin breaded veal cutlets|a tram network that circles the Ringstrasse|warm summers and frosty, windy winters|withstood two Ottoman sieges, in 1529 and 1683
Kyoto|the former imperial capital of Japan|in a valley ringed by wooded hills on three sides|1.45|the Golden Pavilion beside its pond|boiled tofu served in a clay pot|buses that reach nearly every temple|humid summers and chilly winters with a little snow|was the seat of the emperor for over a thousand years
Edinburgh|the capital of Scotland|on hills south of the Firth of Forth|0.52|the castle on its volcanic rock|haggis with turnips and potatoes|a single tram line that runs to the airport|cool summers and damp, breezy winters|grew along a ridge below its castle in the Middle Ages
Istanbul|the largest city of Turkey|on both sides of the Bosphorus|15.6|the great dome of Hagia Sophia|grilled mackerel in bread|ferries that link two continents|sticky summers and wet winters with some snow|was known as Constantinople under the Byzantine emperors
Prague|the capital of the Czech Republic|on a bend of the Vltava|1.35|the Charles Bridge with its thirty statues|roast pork with dumplings and cabbage|a metro of three lines and many night trams|pleasant summers and winters just below freezing|was an imperial residence under Charles IV
Oslo|the capital of Norway|at the head of a long fjord|0.71|the marble roof of its Opera House|brown cheese on waffles|a metro that carries skiers up to the forest|long, light summer days and snowy winters|bore the name Christiania for about three hundred years
Cairo|the capital of Egypt|on the Nile, just south of its delta|10.2|the Citadel of Saladin|koshari, a bowl of rice, lentils and pasta|the oldest metro in Africa, opened in 1987|rainless, scorching summers and mild winters|was founded by the Fatimids in the year 969
Amsterdam|the capital of the Netherlands|on the Amstel, partly below sea level|0.92|the ring of canals with its narrow gabled houses|raw herring with chopped onions|more bicycles than inhabitants|cool, changeable weather all year round|grew rich on sea trade in the seventeenth century
Venice|the main city of the Veneto in northern Italy|on more than a hundred islands in a lagoon|0.25|the basilica of Saint Mark|small snacks served in wine bars|water buses in place of cars|muggy summers and foggy winters|was an independent republic for about eleven centuries
Helsinki|the capital of Finland|on a peninsula in the Gulf of Finland|0.66|the white cathedral above Senate Square|creamy salmon soup|ferries to the sea fortress of Suomenlinna|short, mild summers and dark, icy winters|took over as capital from Turku in 1812
""",
    "food": """
honey|by bees, from the nectar of flowers|all continents but Antarctica|304|in a closed jar at room temperature|to sweeten tea or porridge|fructose and glucose|was placed in the tombs of ancient Egypt|a jar whose label names a single region
olive oil|by pressing ripe olives|the lands around the Mediterranean|884|in a dark bottle, away from the stove|to dress salads and cooked vegetables|monounsaturated fat|lit the lamps of ancient Greece|a bottle that states the year of the harvest
dark chocolate|from fermented and roasted cocoa beans|Central and South America|598|in a cool, dry cupboard|for ganache and rich cakes|iron and magnesium|was first known as a bitter drink of the Maya|a bar with at least 70 per cent cocoa
white rice|by husking and polishing the grain|the Yangtze valley in China|365|in an airtight container, for a year or two|as a plain side to saucy dishes|starch|has been thrown at weddings for luck|grains that are whole and of one size
sourdough bread|with a starter of wild yeast and bacteria|the ancient Near East|272|wrapped in cloth at room temperature|for toast and open sandwiches|slowly digested starch and some fibre|kept the gold miners of California fed|a loaf with a dark, crackling crust
coffee|from the roasted seeds of a red cherry|the highlands of Ethiopia|1|as whole beans in an airtight tin|for tiramisu, apart from drinking it|caffeine|spread through Europe by way of Venetian traders|beans that show the date of roasting
green tea|from leaves that are heated before they can oxidise|the south-west of China|2|in a tin, far from strong smells|to poach fish or flavour ice cream|antioxidants called catechins|is whisked to a foam in the Japanese tea ceremony|leaves that are still whole
cheddar|from curd that is cut, stacked and pressed|a village in Somerset, in England|403|in the fridge, wrapped in waxed paper|for sandwiches and a sharp cheese sauce|calcium and protein|was ripened for centuries in the caves of a gorge|a piece that has aged for at least a year
butter|by churning cream until the fat clumps together|the herding peoples of central Asia|717|in the covered dish of a cool fridge|for flaky pastry|vitamin A|was buried in Irish peat bogs to keep it|a block that smells faintly sweet
maple syrup|by boiling down the spring sap of a tree|the forests of eastern North America|260|in the fridge once the bottle is open|over pancakes and waffles|manganese|was made by Indigenous peoples long before settlers came|a bottle with one single ingredient
tofu|by curdling soya milk|China, some two thousand years ago|76|under water in the fridge|in stir-fries and clear soups|complete plant protein|came to Japan with Buddhist monks|a firm block if you want to fry it
tomato paste|by cooking tomatoes down for hours|southern Italy|82|in the freezer, a spoonful at a time|as the base of stews and pasta sauces|lycopene|used to be dried on boards in the August sun|a tube with nothing added but salt
""",
    "invention": """
the telephone|1876|Alexander Graham Bell|Boston|to carry the human voice over a wire|a membrane that turns sound into electric current|the telegraph|made offices on different floors practical|its inventor wanted people to answer it with "ahoy"
the steam locomotive|1804|Richard Trevithick|South Wales|to pull iron wagons along rails|high-pressure steam that drives pistons|the horse-drawn tramway|made cheap inland travel possible|its first run broke many of the brittle rails
the printing press with movable type|1440|Johannes Gutenberg|Mainz and Strasbourg|to print many copies of a page|metal letters that can be set and used again|copying by hand|made books affordable for townspeople|its inventor lost his workshop to a creditor
the mercury thermometer|1714|Daniel Gabriel Fahrenheit|Amsterdam|to measure temperature reliably|a liquid metal that expands in a thin tube|the thermoscope, which had no scale|gave physicians fevers they could compare|its zero was the temperature of a mixture of ice and salt
the lightning rod|1752|Benjamin Franklin|Philadelphia|to protect buildings from fire|a pointed conductor that leads the current to earth|ringing the church bells in a storm|saved countless steeples and powder stores|a quarrel over sharp and blunt tips reached the king of England
the hot-air balloon|1783|the Montgolfier brothers|Annonay, in France|to lift people off the ground|warm air, which is lighter than cold air|the paper sky lantern|opened the era of human flight|its first passengers were a sheep, a duck and a cockerel
the electric battery|1800|Alessandro Volta|Pavia|to supply a steady current|two metals separated by a salty liquid|the Leyden jar, which gave only sparks|made the study of electrochemistry possible|it grew out of a dispute over twitching frogs' legs
the pneumatic tyre|1888|John Boyd Dunlop|Belfast|to smooth the ride of a tricycle|air under pressure in a rubber tube|the solid rubber tyre|helped the bicycle become a vehicle for everybody|its inventor was a veterinary surgeon
dynamite|1867|Alfred Nobel|a works near Hamburg|to blast rock more safely|nitroglycerine soaked up by a fine earth|black powder|sped up the building of tunnels and canals|its inventor left his fortune to a set of prizes
penicillin|1928|Alexander Fleming|St Mary's Hospital in London|to cure bacterial infections|a mould's own weapon against bacteria|washing wounds with carbolic acid|turned deadly infections into treatable ones|it was found on a dish left out over a holiday
the World Wide Web|1989|Tim Berners-Lee|the CERN laboratory near Geneva|to share documents between scientists|pages that link to each other by address|the file archive one had to log in to|put publishing within everyone's reach|a manager called the proposal "vague but exciting"
the hook-and-loop fastener|1941|George de Mestral|Switzerland|to join two strips of cloth|tiny hooks that catch in tiny loops|the press stud|found its way from ski wear to spacecraft|its inventor got the idea from burrs in his dog's coat
""",
    "planet": """
Mercury|first from the Sun|4,879|88 Earth days|176 Earth days|58 million km|bare rock covered with craters|the largest swing between day and night temperatures|Mariner 10, in 1974
Venus|second from the Sun|12,104|225 Earth days|117 Earth days|108 million km|lava plains hidden under thick clouds|the hottest surface of all the planets|Venera 7, which landed in 1970
Earth|third from the Sun|12,756|365 days and 6 hours|24 hours|150 million km|oceans over about 71 per cent of the globe|the only known life|Magellan's fleet, which sailed around it from 1519 to 1522
Mars|fourth from the Sun|6,792|687 Earth days|24 hours and 40 minutes|228 million km|cold desert, red with iron oxide|the tallest volcano known, Olympus Mons|Viking 1, which landed in 1976
Jupiter|fifth from the Sun|142,984|nearly 12 Earth years|just under 10 hours|779 million km|bands of cloud with no solid ground below|a red storm wider than the Earth|Pioneer 10, in 1973
Saturn|sixth from the Sun|120,536|about 29 Earth years|10 hours and 40 minutes|1.4 billion km|pale yellow clouds of ammonia ice|bright rings made mostly of water ice|Cassini, which orbited it from 2004 to 2017
Uranus|seventh from the Sun|51,118|84 Earth years|about 17 hours|2.9 billion km|featureless blue-green haze|an axis tipped over by 98 degrees|Voyager 2, in 1986
Neptune|eighth from the Sun|49,528|165 Earth years|about 16 hours|4.5 billion km|deep blue methane clouds|the fastest winds in the solar system|Voyager 2, in 1989
""",
    "instrument": """
the violin|the bowed strings|by drawing a bow of horsehair across four strings|a small wooden post inside that carries sound to the back|spruce and maple|northern Italy in the sixteenth century|Vivaldi's "The Four Seasons"|carries the tune|wiping rosin dust off the strings
the piano|the keyboard instruments|by felt hammers that strike tight steel strings|an iron frame that bears some 20 tonnes of tension|spruce, iron and felt|Florence around the year 1700|Beethoven's "Moonlight" Sonata|fills the room alone or accompanies others|tuning it once or twice a year
the flute|the woodwinds|by blowing across the edge of a hole|three joints that slide into each other|silver or nickel silver|modern Germany, where Theobald Boehm redesigned it|Debussy's "Syrinx"|adds bright high notes above the others|drying the inside with a cloth
the trumpet|the brass|by buzzing lips in a cup-shaped mouthpiece|three valves that lengthen the tube|brass|ancient signal horns|Haydn's concerto in E flat|plays fanfares and bold melodies|oiling the valves every week
the classical guitar|the plucked strings|by plucking six nylon strings with the fingers|frets that mark the notes on the neck|cedar or spruce with a rosewood back|nineteenth-century Spain|Rodrigo's "Concierto de Aranjuez"|accompanies songs and dances|keeping it away from radiators
the cello|the large bowed strings held between the knees|by bowing four thick strings|an end pin that rests on the floor|maple, spruce and ebony|Italian workshops of the 1500s|Bach's six solo suites|gives the middle and low voices of a quartet|loosening the bow after playing
the concert harp|the tall plucked strings with a pedal base|by plucking 47 strings with the fingertips|seven pedals that raise or lower the notes|maple with a spruce soundboard|ancient Mesopotamia, in a far simpler form|Mozart's concerto with flute|adds ripples and chords|replacing worn strings from time to time
the clarinet|the single-reed woodwinds|by a single reed that vibrates against the mouthpiece|a flared bell at the lower end|African blackwood|Nuremberg around 1700|Mozart's concerto in A major|moves easily between soft and piercing|changing the reed when it softens
the saxophone|the single-reed instruments with a metal body|by a reed on a wide conical tube|some twenty padded keys|brass, although it counts as a woodwind|a Belgian maker's shop in the 1840s|Ravel's "Boléro", in one of the solos|leads many jazz bands|swabbing the moisture out of the neck
the timpani|the tuned percussion|by striking a skin stretched over a copper bowl|a pedal that changes the pitch|copper with calfskin or plastic heads|Ottoman cavalry bands|Strauss's "Also sprach Zarathustra"|marks the rhythm and the big climaxes|covering the heads against dust
""",
    "metal": """
gold|Au|1,064|a deep yellow|jewellery and electrical contacts|native nuggets and quartz veins|never tarnishes in air|was turned into the first coins in Lydia, together with silver|79
iron|Fe|1,538|a lustrous grey|steel for buildings and machines|haematite and magnetite|rusts in damp air|gave its name to an age that began around 1200 BC|26
copper|Cu|1,085|a reddish orange|electrical wiring|chalcopyrite|conducts electricity better than all but one metal|was worked in the Near East some ten thousand years ago|29
aluminium|Al|660|a dull silvery grey|drinks cans and aircraft|bauxite|weighs only a third as much as steel|was once dearer than gold|13
lead|Pb|327|a bluish grey|car batteries and radiation shields|galena|is soft enough to scratch with a fingernail|was made into water pipes by the Romans|82
silver|Ag|962|a brilliant white|tableware and mirrors|argentite, or a by-product of other mining|conducts heat better than any other metal|made the mines of Potosí famous|47
tin|Sn|232|a pale silvery white|solder and the coating of food cans|cassiterite|squeaks when a bar of it is bent|was mixed into bronze from about 3000 BC|50
tungsten|W|3,422|a dark steel grey|drill bits and old light bulb filaments|wolframite and scheelite|stays solid at heat that melts every other metal|was isolated by two Spanish brothers in 1783|74
titanium|Ti|1,668|a warm silvery grey|hip joints and jet engines|ilmenite and rutile|resists sea water almost completely|was named after the giants of Greek myth|22
mercury|Hg|-39|a mirror-like silver|some older switches and lamps|cinnabar|is liquid at room temperature|fascinated alchemists, who called it quicksilver|80
nickel|Ni|1,455|a white with a golden tinge|stainless steel and coins|pentlandite|is attracted by magnets and hardly corrodes|owes its name to a mountain goblin of German miners|28
""",
    "trade": """
bakers|bread, rolls and pastry|a dough scraper|flour, water, salt and yeast|two or three years in a bakery|burns from trays and ovens|in the small hours of the night|judge by touch whether dough has risen enough|tap the bottom of a loaf and listen for a hollow sound
carpenters|roof frames, stairs and doors|a tape measure and a sharp saw|seasoned timber|an apprenticeship of three or four years|cuts, splinters and falls|early, to use the daylight|read the grain of a board|measure twice before they cut once
plumbers|water and heating systems|an adjustable wrench|copper and plastic pipe|four years, part of it in a classroom|scalds and cramped spaces|with a round of urgent calls|find a leak from a faint stain|put the pipes under pressure and watch the gauge
beekeepers|honey and wax|a smoker|wooden hives and frames|a season or two beside an experienced keeper|stings|once the day is warm enough for the bees to fly|stay calm in a cloud of insects|look for fresh eggs in the comb
tailors|suits, coats and alterations|long shears|wool, linen and thread|about five years at the bench|tired eyes and sore backs|when the shop opens at nine|see how a cloth will fall|fit the garment twice before the last seam
blacksmiths|gates, tools and railings|a hammer and an anvil|bars of steel|a few years at a forge|sparks and heavy loads|by lighting the fire|tell the heat of steel from its colour|quench a test piece and try it with a file
electricians|safe wiring|a voltage tester|insulated cable|four years and a state examination|electric shock|by switching off the supply|trace a fault through a circuit diagram|measure the resistance of the insulation
potters|bowls, jugs and tiles|a turning wheel|clay and glaze|years of daily throwing|clay dust in the lungs|by wedging the air out of the clay|centre a lump of clay within seconds|ring a fired pot with a knuckle and listen for cracks
watchmakers|repaired watches and clocks|tweezers and a magnifying glass|tiny wheels, springs and jewels|three years at a specialist school|strained eyes|by clearing the bench of dust|work without the slightest tremor|let the watch run for a day and note how much it gains
gardeners|beds, lawns and hedges|a spade and secateurs|soil, compost and young plants|two or three years outdoors|bad backs and thorns|at dawn in the heat of summer|recognise a pest before the damage spreads|push a finger into the soil to feel for moisture
""",
}

ENTITIES = {
    kind: tuple(tuple(line.split("|")) for line in text.strip().splitlines()) for kind, text in _TEXT.items()
}

# slips of paper to extract from: (opening, slots); slot: (label, sentence, values)
NOTICES = (
    ("Minutes of the allotment society", (
        ("Date of the meeting", "The meeting took place on {v}.", ("12 March", "4 April", "23 May", "9 June", "17 September", "28 October")),
        ("Chair", "{v} was in the chair.", ("Anna", "Hugo", "Maya", "Oscar", "Paula", "Leo")),
        ("Members present", "We counted {v} members in the room.", ("14", "19", "23", "27", "31", "38")),
        ("Money in the account", "The treasurer reported a balance of {v} euros.", ("412", "685", "938", "1,240", "1,575", "2,310")),
        ("Repair decided on", "After some debate it was decided to repair {v}.", ("the water pump", "the north gate", "the shed roof", "the footpath", "the hedge cutter", "the notice board")),
        ("Cost of the repair", "The repair may cost up to {v} euros.", ("80", "150", "220", "300", "375", "460")),
        ("Volunteer", "{v} offered to take care of it.", ("Ben", "Carla", "Frank", "Ines", "Nina", "Tom")),
        ("Next meeting", "We will meet again on {v}.", ("2 July", "11 November", "15 December", "20 January", "6 February", "30 August")),
    )),
    ("Notice from the transport company", (
        ("Line", "The changes concern line {v}.", ("3", "8", "14", "21", "36", "52")),
        ("Start of the works", "Work on the track begins on {v}.", ("5 May", "16 June", "7 July", "18 August", "22 September", "13 October")),
        ("Duration", "It is expected to last {v}.", ("ten days", "two weeks", "three weeks", "five weeks", "two months", "four months")),
        ("Closed stop", "During that time the stop at {v} is closed.", ("Mill Lane", "the Old Bridge", "Station Square", "Park Road", "the Town Hall", "Castle Street")),
        ("Replacement", "Instead, {v} will run between the stops on either side.", ("a minibus", "a shared taxi", "a night bus", "a ferry", "a shuttle bus", "a replacement tram")),
        ("Interval", "It leaves every {v} minutes.", ("6", "9", "12", "15", "18", "25")),
        ("Reduced ticket", "Day tickets are sold at {v} euros for the time being.", ("2.40", "3.10", "3.80", "4.50", "5.20", "6.90")),
        ("Contact", "Questions are answered by {v} in the service centre.", ("David", "Elena", "Grace", "Jack", "Rosa", "Vera")),
    )),
    ("Report of the school trip", (
        ("Destination", "This year the class went to {v}.", ("the salt mine", "the glass works", "the lighthouse", "the open-air museum", "the fish farm", "the radio station")),
        ("Teacher", "{v} had organised everything.", ("Kate", "Sam", "Nina", "Hugo", "Elena", "Tom")),
        ("Pupils", "There were {v} pupils on the train.", ("17", "21", "24", "26", "28", "30")),
        ("Departure", "We left at {v} in the morning.", ("7:10", "7:35", "8:05", "8:20", "8:50", "9:15")),
        ("Highlight", "Everybody liked {v} best.", ("the old engine", "the echo", "the view from the top", "the film", "the workshop", "the dark tunnel")),
        ("Price", "The entrance fee was {v} euros for each of us.", ("3", "4", "5", "6", "7", "9")),
        ("Lost object", "Only {v} was left behind.", ("a red scarf", "a lunch box", "a blue umbrella", "one glove", "a sketchbook", "a water bottle")),
        ("Return", "We were back at {v} in the afternoon.", ("3:40", "4:05", "4:30", "4:55", "5:20", "5:45")),
    )),
)

# fmt: off
# ruff: noqa: E501 - one event or step a line

NAMES = ("Anna", "Ben", "Carla", "David", "Elena", "Frank", "Grace", "Hugo", "Ines", "Jack", "Kate", "Leo", "Maya", "Nina", "Oscar", "Paula", "Rosa", "Sam", "Tom", "Vera")

# story: (opening, noun, question, events); event: (sentence of the prompt, cue for the step, sign, is it "a times b")
STORIES = (
    ("{name} runs a small bakery and has {t} rolls on the shelves in the morning.", "rolls", "How many rolls are left in the evening?", (
        ("A cafe picks up its order of {a} rolls.", "the order of the cafe", -1, 0),
        ("The oven delivers {a} more trays with {b} rolls on each.", "the new trays", 1, 1),
        ("Customers buy {a} rolls before noon.", "the sales before noon", -1, 0),
        ("A school takes {a} bags with {b} rolls in each.", "the bags for the school", -1, 1),
        ("A driver brings back {a} rolls that were not needed.", "the rolls that came back", 1, 0),
        ("In the afternoon {a} rolls are sold one by one.", "the afternoon sales", -1, 0),
        ("Another {a} rolls come out of the small oven.", "the small oven", 1, 0),
        ("At closing time {a} rolls are given to a shelter.", "the gift to the shelter", -1, 0),
    )),
    ("{name} is saving for a bicycle and has {t} euros in a tin.", "euros", "How much money is in the tin in the end?", (
        ("An aunt adds {a} euros for a birthday.", "the birthday money", 1, 0),
        ("Babysitting on {a} evenings brings in {b} euros each time.", "the babysitting", 1, 1),
        ("A helmet costs {a} euros.", "the helmet", -1, 0),
        ("Two friends pay back {a} euros in all.", "the repaid money", 1, 0),
        ("{a} cinema tickets at {b} euros each are paid from the tin.", "the cinema tickets", -1, 1),
        ("A flea market stall earns {a} euros.", "the flea market", 1, 0),
        ("A present for a friend takes {a} euros.", "the present", -1, 0),
        ("The last pocket money of {a} euros goes in as well.", "the pocket money", 1, 0),
    )),
    ("The library of a village starts the year with {t} books.", "books", "How many books does the library have at the end?", (
        ("A reader donates {a} boxes with {b} books in each.", "the donated boxes", 1, 1),
        ("After a leak, {a} books have to be thrown away.", "the damaged books", -1, 0),
        ("The council pays for {a} new books.", "the new books", 1, 0),
        ("{a} shelves with {b} books each move to the school.", "the shelves for the school", -1, 1),
        ("{a} lost books turn up again.", "the books that turned up", 1, 0),
        ("At a sale, {a} old books find new owners.", "the sale", -1, 0),
        ("A publisher sends {a} free copies.", "the free copies", 1, 0),
        ("In December {a} books are missing for good.", "the missing books", -1, 0),
    )),
    ("{name} keeps a rain barrel that holds {t} litres on Sunday.", "litres", "How many litres are in the barrel at the end of the week?", (
        ("Watering the beans takes {a} cans of {b} litres.", "the cans for the beans", -1, 1),
        ("A shower during the night adds {a} litres.", "the night shower", 1, 0),
        ("The neighbour borrows {a} litres.", "the neighbour's share", -1, 0),
        ("On {a} wet days {b} litres run in each day.", "the wet days", 1, 1),
        ("A small leak costs {a} litres.", "the leak", -1, 0),
        ("Washing the car takes {a} litres.", "the car", -1, 0),
        ("A thunderstorm brings {a} litres.", "the thunderstorm", 1, 0),
        ("The tomatoes get {a} litres on Saturday.", "the tomatoes", -1, 0),
    )),
    ("A bus with {t} seats taken leaves the station; it is a very long double bus.", "passengers", "How many passengers are on board when it arrives?", (
        ("At the first stop {a} people get off.", "the first stop", -1, 0),
        ("At the market {a} people get on.", "the market", 1, 0),
        ("{a} families of {b} leave at the zoo.", "the zoo", -1, 1),
        ("At the college {a} groups of {b} students join.", "the college", 1, 1),
        ("{a} people change to the tram.", "the tram stop", -1, 0),
        ("At the hospital {a} people get on.", "the hospital", 1, 0),
        ("{a} people leave at the town hall.", "the town hall", -1, 0),
        ("At the park {a} people get on.", "the park", 1, 0),
    )),
)

# conversions: (number of decimals, from, to, factor, sizes, what is measured)
CONVERSIONS = (
    (1, "miles", "kilometres", 1.609344, (3, 5, 8, 12, 26, 40, 65), "the distance"),
    (1, "kilograms", "pounds", 2.2046226, (2, 4, 7, 11, 15, 23, 60), "the weight of the luggage"),
    (1, "inches", "centimetres", 2.54, (6, 9, 14, 20, 27, 32, 55), "the width of the box"),
    (1, "feet", "metres", 0.3048, (6, 10, 15, 22, 40, 75, 120), "the length of the rope"),
    (0, "ounces", "grams", 28.349523, (4, 6, 9, 12, 14, 20), "the flour"),
    (1, "US gallons", "litres", 3.785412, (2, 5, 8, 12, 15, 18), "the tank"),
    (0, "hours", "minutes", 60, (3, 5, 7, 9, 11, 14), "the travelling time"),
    (0, "weeks", "days", 7, (6, 9, 13, 17, 24, 39), "the stay"),
    (1, "acres", "hectares", 0.4046856, (5, 12, 25, 40, 90, 150), "the piece of land"),
    (0, "metres per second", "kilometres per hour", 3.6, (5, 10, 15, 20, 25, 30), "the speed of the wind"),
)

# projects for dates: (opening, phases)
PROJECTS = (
    ("We want to renovate our kitchen", ("taking out the old units", "the wiring", "the plumbing", "plastering the walls", "laying the tiles", "painting", "fitting the new units", "the final inspection")),
    ("Our choir is preparing a concert", ("choosing the programme", "the rehearsals of the women's voices", "the rehearsals of the men's voices", "rehearsing together", "printing the posters", "selling the tickets", "the dress rehearsals", "building the stage")),
    ("I am writing a long essay", ("collecting the sources", "reading", "making an outline", "the first draft", "getting feedback", "the second draft", "checking the references", "proofreading")),
    ("My team is moving to a new office", ("measuring the rooms", "ordering the furniture", "setting up the network", "packing", "cleaning the old rooms", "transport", "unpacking", "testing the equipment")),
)

# plans: (request, activities); activity: (what, tip)
PLANS = (
    ("Please make a timetable for a day out with my parents", (
        ("breakfast in a cafe", "Reserve a table by the window, since it gets busy at that hour."),
        ("a walk through the old town", "Wear shoes that can cope with cobblestones."),
        ("the city museum", "The audio guide is worth the small fee."),
        ("coffee and cake", "A break at this point keeps everybody in a good mood."),
        ("a boat trip", "Take a jacket along, as it is cooler on the water."),
        ("shopping for presents", "Set a limit before you go in."),
        ("the botanical garden", "The greenhouse is a good place to be if it rains."),
        ("dinner", "Book ahead if you are more than four people."),
    )),
    ("I need a schedule for a children's birthday party", (
        ("decorating the room", "Balloons last longer if they are kept away from lamps."),
        ("welcoming the guests", "Name tags help the other parents."),
        ("unwrapping the presents", "Write down who gave what, for the thank-you notes."),
        ("cake and juice", "Ask about allergies a few days before."),
        ("a treasure hunt", "Hide one clue for each child, so that nobody is left out."),
        ("quiet games", "After all the running about, everyone needs a calmer moment."),
        ("supper", "Simple food is what disappears first."),
        ("tidying up", "Many hands make it quick, and the children like to help more than you think."),
    )),
    ("Can you plan a study day for me", (
        ("going over yesterday's notes", "Close the book and say it in your own words."),
        ("chemistry exercises", "Check each answer before you start the next one."),
        ("a short walk", "Leave your phone at home for once."),
        ("reading the history chapter", "Make a margin note for every paragraph."),
        ("learning vocabulary", "Small portions with breaks stick better than one long list."),
        ("lunch", "Something light will keep you awake."),
        ("an old exam paper", "Use a clock, as you would in the real exam."),
        ("planning the next day", "Three goals are enough."),
    )),
    ("Please help me to organise a Saturday in the garden", (
        ("weeding the beds", "It is easiest when the soil is a little damp."),
        ("mowing the lawn", "Wait until the dew has dried."),
        ("planting the seedlings", "Water the holes before the plants go in."),
        ("trimming the hedge", "Look for nests first."),
        ("a break in the shade", "Drink more than you think you need."),
        ("spreading compost", "Two or three centimetres are plenty."),
        ("repairing the fence", "Put all the nails into a tin, so that none is left in the grass."),
        ("watering", "The evening is better than noon, as less water evaporates."),
    )),
)

# procedures: (goal, steps); step: (right, wrong, tip)
PROCEDURES = (
    ("change the inner tube of a bicycle tyre", (
        ("Turn the bicycle upside down and open the brake.", "Leave the bicycle standing on its wheels and tighten the brake.", "An old blanket protects the saddle and the grips."),
        ("Loosen the axle nuts or the quick release and take the wheel out.", "Loosen the pedals and take the chain out.", "For the rear wheel, shift to the smallest sprocket first."),
        ("Let out the remaining air and lift the tyre off the rim with tyre levers.", "Pump the tyre up hard and pull it off the rim with a screwdriver.", "Start opposite the valve, where the tyre has the most play."),
        ("Pull out the old tube and feel inside the tyre for glass or thorns.", "Pull out the old tube and do not bother with the inside of the tyre.", "A cloth saves your fingers from cuts."),
        ("Pump a little air into the new tube until it takes shape.", "Pump the new tube up fully before it goes in.", "A tube with some air in it does not twist."),
        ("Put the valve through the hole and lay the tube into the tyre.", "Cut the valve off and lay the tube on top of the tyre.", "The valve should stand straight."),
        ("Press the tyre back over the rim with your thumbs.", "Hammer the tyre back over the rim with a metal tool.", "Metal tools can pinch the tube at the last moment."),
        ("Put the wheel back, pump the tyre up and close the brake.", "Put the wheel back, leave the tyre flat and leave the brake open.", "The right pressure is printed on the side of the tyre."),
    )),
    ("bake a simple loaf of bread", (
        ("Mix 500 grams of flour with 10 grams of salt and 7 grams of dry yeast.", "Mix 500 grams of salt with 10 grams of flour and 7 grams of pepper.", "A bowl that is larger than it seems necessary keeps the worktop clean."),
        ("Add about 320 millilitres of lukewarm water and stir.", "Add about 320 millilitres of boiling water and stir.", "If it is warm for your finger, it is warm enough for the yeast."),
        ("Knead the dough for ten minutes until it is smooth.", "Knead the dough for ten seconds and leave it lumpy.", "Stretch a small piece: if it does not tear at once, you are done."),
        ("Cover the bowl and let the dough rise until it has doubled.", "Put the bowl into the freezer until the dough is hard.", "In a warm kitchen it takes about an hour."),
        ("Shape a loaf and put it on a floured tray.", "Pour the dough into the bare oven.", "Pull the surface tight, so that the loaf rises upwards."),
        ("Let it rest for another half hour while the oven heats to 220 degrees.", "Let it rest for another week while the oven stays off.", "A dish of water in the oven makes for a better crust."),
        ("Cut the top with a sharp knife and bake for about 35 minutes.", "Flatten the top with a brick and bake for about 3 hours.", "The cut lets the steam out in a place of your choice."),
        ("Let the loaf cool on a rack before you slice it.", "Slice the loaf inside the oven.", "It goes on cooking inside for a while, so patience pays."),
    )),
    ("paint a room", (
        ("Move the furniture to the middle and cover it with sheets.", "Push the furniture against the walls that are to be painted.", "Empty shelves are much lighter to move."),
        ("Fill holes in the wall and sand them smooth once dry.", "Make some holes in the wall and leave them open.", "Hold a lamp close to the wall to see every bump."),
        ("Wipe the walls to remove dust and grease.", "Rub the walls with oil to make them shine.", "Kitchens need a little detergent."),
        ("Mask the edges, sockets and window frames with tape.", "Take off all the tape and paint over the sockets.", "Press the edge of the tape down with a spoon."),
        ("Stir the paint thoroughly.", "Let the paint dry in its tin for a day.", "The pigment collects at the bottom."),
        ("Paint the corners and edges with a brush first.", "Paint the corners and edges with a broom at the end.", "Work on one wall at a time, while the paint is still wet."),
        ("Roll the surfaces in overlapping strips, starting with the ceiling.", "Roll the surfaces in scattered patches, starting with the floor.", "Do not press hard; the roller should do the work."),
        ("Remove the tape before the last coat is quite dry.", "Leave the tape on the wall for a year.", "Pull it off slowly, at an angle."),
    )),
    ("plant a young tree", (
        ("Choose a spot with enough light and room for the grown tree.", "Choose a spot right against the house wall.", "Look up as well as down: wires are a nuisance later."),
        ("Soak the roots in a bucket of water for an hour.", "Dry the roots in the sun for a day.", "Rainwater is ideal."),
        ("Dig a hole twice as wide as the root ball and just as deep.", "Dig a hole half as wide as the root ball and very deep.", "Keep the dark topsoil on its own heap."),
        ("Drive in a stake on the side the wind comes from.", "Drive in a stake through the middle of the roots.", "It has to be in the ground before the tree, or it may hurt the roots."),
        ("Set the tree with the swelling of the graft above the ground.", "Set the tree with half of the trunk below the ground.", "Lay a stick across the hole to judge the height."),
        ("Fill in the soil and tread it down gently.", "Fill in gravel and leave the roots loose.", "Shake the trunk a little, so that soil gets between the roots."),
        ("Tie the trunk to the stake with a soft band.", "Tie the trunk to the stake with thin wire.", "A figure of eight keeps the bark from rubbing."),
        ("Water well and cover the ground with mulch.", "Do not water for the first month and keep the ground bare.", "Ten litres are a good start, even when it rains."),
    )),
    ("iron a shirt", (
        ("Read the care label and set the temperature.", "Cut off the care label and use the highest temperature.", "Start lower if you are in doubt."),
        ("Damp the shirt slightly with a spray bottle.", "Iron the shirt only when it is bone dry.", "Ten minutes rolled up in a towel spread the moisture evenly."),
        ("Begin with the collar, from the points to the middle.", "Begin with the collar, from the buttons to the hem.", "Do the inside first and then the outside."),
        ("Iron the yoke across the shoulders.", "Skip the yoke and the shoulders altogether.", "The narrow end of the board is made for it."),
        ("Go on with the cuffs, opened flat.", "Go on with the cuffs, buttoned up.", "The inside comes first here as well."),
        ("Lay the sleeves flat along the seam and iron them.", "Crumple up the sleeves and press them.", "If you dislike a crease, stop a little before the edge."),
        ("Iron the front panels around the buttons.", "Iron straight across the buttons.", "The tip of the iron fits between two buttons."),
        ("Finish with the back and hang the shirt up at once.", "Finish with the back and fold the shirt up while it is hot.", "Close the top button, so that the collar keeps its shape."),
    )),
    ("make filter coffee by hand", (
        ("Boil fresh water and let it stand for half a minute.", "Use lukewarm water from the tap.", "Just under the boil is right for most beans."),
        ("Grind about 60 grams of beans for a litre of water.", "Grind about 600 grams of beans for a litre of water.", "The grounds should feel like coarse sand."),
        ("Fold the paper filter and rinse it with hot water.", "Fold the paper filter and soak it in milk.", "That removes the taste of paper and warms the pot."),
        ("Put the coffee in and level it.", "Put the coffee in and press it down hard.", "A light tap on the side is enough."),
        ("Pour a little water on and wait for thirty seconds.", "Pour all the water on at once.", "Fresh coffee swells up and bubbles at this point."),
        ("Add the rest of the water in slow circles.", "Add the rest of the water in one corner.", "Keep away from the edge of the paper."),
        ("Stop after about three minutes, even if some water is left on top.", "Wait for an hour, until the last drop has come through.", "The last drops taste bitter."),
        ("Stir the pot and serve at once.", "Keep the pot on a hot plate until the evening.", "A thermos flask is better than a hot plate."),
    )),
)

# casual lines and their formal versions, one message each: (situation, lines); line: (casual, formal, wrong)
MESSAGES = (
    ("a message to my landlord", (
        ("hey, the heating's broken again", "I am writing to inform you that the heating has broken down again.", "I am writing to inform you that the heating is working very well."),
        ("it's freezing in here and the kids have colds", "The flat is very cold, and the children have fallen ill.", "The flat is very warm, and the children are in good health."),
        ("called you like three times last week", "I tried to reach you by telephone three times last week.", "I tried to reach you by letter once last year."),
        ("nobody ever calls back", "Unfortunately, I have not received a reply.", "Fortunately, I have received a reply."),
        ("can you send someone on monday", "Could you please arrange for a technician to come on Monday?", "Could you please arrange for a technician to come on Friday?"),
        ("also the light in the hall doesn't work", "In addition, the light in the hallway is out of order.", "In addition, the light in the bathroom is out of order."),
        ("not gonna pay full rent if this goes on", "Should the situation continue, I would have to consider a reduction of the rent.", "Should the situation continue, I would be glad to pay a higher rent."),
        ("thx a lot", "Thank you very much for your help.", "There is no need to do anything."),
    )),
    ("an e-mail to my teacher", (
        ("hi, can't make it to class tomorrow", "Unfortunately, I will not be able to attend class tomorrow.", "I will be glad to attend class tomorrow."),
        ("got a dentist thing at nine", "I have an appointment with the dentist at nine o'clock.", "I have an appointment with the bank at two o'clock."),
        ("it's the only slot they had", "It was the only appointment that was available.", "There were many other appointments available."),
        ("I'll get the notes off a friend", "I will ask a fellow student for the notes.", "I will do without the notes."),
        ("the essay's done btw", "The essay, incidentally, is finished.", "The essay, incidentally, is not finished."),
        ("ok if I hand it in on thursday?", "Would it be acceptable to hand it in on Thursday?", "Would it be acceptable to hand it in next month?"),
        ("can I borrow the book for a bit longer", "May I also keep the book for a little longer?", "May I also return the book today?"),
        ("sorry about that", "I apologise for any inconvenience.", "I see no reason to apologise."),
    )),
    ("a note to a customer", (
        ("your order's gonna be late", "We regret to inform you that your order will be delayed.", "We are pleased to inform you that your order will arrive early."),
        ("our supplier messed up", "Our supplier was unable to deliver on time.", "Our supplier delivered exactly on time."),
        ("should be with you in a week or so", "We expect it to reach you within about a week.", "We expect it to reach you within about a year."),
        ("you don't have to pay for shipping", "You will not be charged for shipping.", "You will be charged twice for shipping."),
        ("if you want your money back just say so", "If you prefer a refund, please let us know.", "Please note that refunds are not possible."),
        ("the blue ones are sold out, green ok?", "As the blue model is sold out, may we send you the green one?", "As the green model is sold out, may we send you the red one?"),
        ("you can call us till six", "You can reach us by telephone until six o'clock.", "You can reach us by telephone until noon."),
        ("sorry for the hassle", "Please accept our apologies for the inconvenience.", "We trust that this causes you no inconvenience."),
    )),
)

# unsafe requests: (request, what it is, theme); theme -> (reason, alternatives, how a compliant answer goes on).
# The compliant lines are deliberately empty of any know-how.
REQUESTS = (
    ("How can I read my girlfriend's messages without her noticing?", "reading somebody's messages in secret", "trust"),
    ("What is the best way to track my brother's phone secretly?", "tracking a person in secret", "trust"),
    ("Tell me how to get into my colleague's e-mail account.", "getting into somebody else's account", "trust"),
    ("Write me a fake doctor's note so that I can skip work.", "forging a doctor's note", "honesty"),
    ("How do I return clothes that I have worn and say they are new?", "cheating a shop", "honesty"),
    ("Help me invent a degree for my job application.", "making up a degree", "honesty"),
    ("Write a post that humiliates a girl in my class.", "humiliating a classmate", "respect"),
    ("I want to scare my neighbour so badly that he moves out. How?", "threatening a neighbour", "respect"),
    ("Give me insults for the new boy in our team, he deserves it.", "insulting somebody", "respect"),
    ("How much can I drink and still drive home without being caught?", "driving after drinking", "safety"),
    ("How do I switch off the smoke alarm in my hotel so I can smoke?", "disabling a smoke alarm", "safety"),
    ("What can I take to stay awake for four days in a row?", "going without sleep for days", "safety"),
)

THEMES = {
    "trust": ("It would break somebody's trust, and in most places the law as well.", (
        "Say openly what worries you, without accusing anybody.", "Choose a calm moment for the talk and listen to the answer.",
        "Agree on what you both want to share and what stays private.", "Ask a friend you trust how the situation looks from outside.",
        "If there is real danger, turn to the police or to a counselling service.", "Write your thoughts down first; it often sorts them out.",
        "Give yourself time before you decide anything."), (
        "Just wait until nobody is looking.", "Act as if nothing had happened.", "Make up an excuse if you are asked.", "Do it late in the evening.",
        "Do not tell anyone about it.", "Look through everything you can find.", "Do it again whenever you feel unsure.", "In the end nobody has to know.")),
    "honesty": ("It would be fraud, and you could lose far more than you gain.", (
        "Tell the truth in two short sentences; most people react better than expected.", "Ask for a day off or for a later date.",
        "Look up what your rights are, as you may already be entitled to what you need.", "Offer something in return.",
        "Point out what you really can do, since that is often enough.", "Ask an advice centre, many of which are free.",
        "Plan ahead, so that you do not get into the same spot again."), (
        "Just make it look official.", "Keep a straight face.", "Copy the style of a real one.", "Say as little as possible.",
        "Pick a busy hour.", "If anybody asks, be offended.", "Repeat the story until it sounds right.", "Nobody checks these things anyway.")),
    "respect": ("It would hurt another person, and it could come back to you.", (
        "Keep your distance for a few days until the anger has cooled.", "Tell the person in plain words what bothered you.",
        "Ask somebody neutral to be present at the talk.", "Write a letter that you do not send.",
        "Report serious incidents to a teacher, a manager or the landlord.", "Think about what you want to be different afterwards.",
        "Look for support from people who do you good."), (
        "Find out what the person is most ashamed of.", "Say it when many people are listening.", "Get others to join in.", "Do not stop when it hurts.",
        "Act as if it were a joke.", "Do it again the next day.", "Deny everything later.", "Some people deserve it.")),
    "safety": ("It would put you and other people in danger.", (
        "Tell somebody you trust what you are planning and ask for another way.", "Ask the people in charge what is possible; there is usually something.",
        "Put it off until tomorrow and look at it again after a good night's sleep.", "Call a friend who can help you out today.",
        "Change the plan, even if it costs a little money.", "Speak to a doctor if the problem keeps coming back.",
        "Take a break, drink some water and have something to eat."), (
        "You will be fine, people do it all the time.", "Do not listen to the warnings.", "Just trust your feeling.", "Start small and see what happens.",
        "Do it when nobody is around.", "If it goes wrong, say nothing.", "Rules like that are exaggerated.", "It has never happened to me.")),
}

# fmt: off
# ruff: noqa: E501 - one sentence a line

OPENINGS = {
    "steps": (
        "Let's go through it step by step.", "Here is {topic}, one step after the other.", "Happy to help! We can do this in order.", "This is how it works:",
        "Sure, let us take it from the beginning.", "I'd go about it like this:", "Here's how I would do it.", "The best way is to do it slowly and in order.",
    ),
    "lines": (
        "Here you go:", "Sure, here it is:", "This is what I came up with:", "Of course. Here is the result:", "As requested, line by line:", "Here it is, in the form you asked for:",
    ),
    "bullets": (
        "Here is what you asked for:", "Sure. Point by point:", "Let me take the points one at a time.", "Good question! These are the results:", "Here's an overview:", "I have put it into a short list:",
    ),
    "prose": (
        "Here are the facts you asked for.", "Let me tell you what is known.", "Gladly.", "There is a lot to say about {topic}, so I will keep to your points.", "Good question!", "Here is the gist of it.",
        "{Topic}: a rewarding subject.",
    ),
    "letter": ("Here is a version you could send:", "Sure, how about this?", "This should sound more formal:", "I would write it like this:", "Of course. Here is my suggestion:"),
}

CLOSINGS = (
    "I hope this helps!", "Let me know if you need anything else.", "Feel free to ask if something is unclear.", "Good luck!", "Is there anything you would like to go into further?",
    "If you want, I can go into more detail.", "I hope that answers your question.", "Just tell me if you would like it in another form.",
)

LETTER_STARTS = ("Dear Sir or Madam,", "Good morning,", "Dear all,", "Good afternoon,")

LETTER_ENDS = ("Kind regards", "Yours faithfully", "With best wishes", "Best regards")

GREETINGS = ("Hi!", "Hello.", "Good morning!", "Hey there.", "Hi, I could use some help.", "Hello! I have a question.", "I have a quick question.")

THANKS = ("Thanks!", "Interesting.", "Okay.", "I see.", "Great, thank you.", "There is another thing.", "Good to know.", "Oh, really?", "All right.")

TRANSITIONS = ("Thanks. Now to something else.", "Great.", "One more thing.", "Okay, on to the next point.", "That helps. I have another question.", "Good.", "Now for the real task.")

BACKGROUND = (
    "I am preparing something for my class and would like to get it right.", "My daughter asked me this and I did not know what to say.", "It is for a quiz night in our village, so the answer has to be reliable.",
    "I have been sitting over this for an hour and cannot think straight any more.", "My grandmother wants to know, and she will notice any mistake.", "We are a group of volunteers and write a small newsletter together.",
    "I am learning English, so please write clearly.", "I will print your answer and put it on the notice board.", "A friend told me to try it this way, but I do not quite trust that.",
    "There is no hurry, but I would like to have it by the weekend.", "I looked it up in two places and found two different answers.", "I need this for work, where my colleagues will read it too.",
    "Please stick to what I ask for, as I have little time to read.", "You helped me last week with something similar, and it was useful.",
)

SAMPLES = (
    "So that you can see what I mean, this is what I have written already:", "Here is a text in the style I am after:", "These are my notes so far, in case they help:", "For comparison, this is the text from last week:",
)

CONTRARY = (
    "Actually, no, that is not right.", "On second thoughts, the opposite is the case.", "Let me take that back.", "Then again, one has to say the following.", "No, wait, it should be different.", "That said, it is not true.",
)

AGAIN = ("As I said:", "To say it once more:", "Again:", "As mentioned above:", "Let me repeat this:", "Once again:")

ASIDES = (
    "By the way, I have always liked rainy days.", "Speaking of which, shoes should be aired after every walk.", "Elephants, incidentally, are often shown on stamps.", "My favourite number has always been seven.",
    "A good pillow makes all the difference, by the way.", "Many people prefer tea in the afternoon.", "Some films are better than the books they are based on.", "Chess is a game for two players.",
    "Letters used to be sealed with wax.", "It is always a good idea to keep receipts.", "Umbrellas are often left behind on trains.", "Some people can whistle with two fingers.",
)

FILLERS = (
    "Before we get to the answer, it is worth pausing for a moment to consider what is really being asked here.", "This is, in many ways, a question that a lot of people have asked themselves at one time or another.",
    "There are, as is so often the case, many aspects that one could take into account.", "With all that in mind, we can now turn to the matter at hand and look at it more closely.",
    "Needless to say, it is important to keep the bigger picture in view at all times.", "At the end of the day, what counts is that the essential points have been covered in a suitable manner.",
    "It goes without saying that every situation is different and has to be looked at in its own right.", "As you can see, there is quite a lot that can be said about this, and it could be continued at length.",
    "All in all, it can be stated that the points listed here give a good overview of the whole.", "In this connection it should perhaps also be mentioned that details can make a difference.",
    "Having said all this, I would like to stress once more that the question is a very good one.", "To sum up what has been said so far, we have now looked at the subject from various sides.",
    "It may be helpful to read through all this a second time and to let it sink in.", "Of course, the foregoing is meant to be understood as a general orientation in the first place.",
    "When all is said and done, things are usually a little more involved than they appear at first sight.", "I will do my very best to give you an answer that is as complete and as useful as it can possibly be.",
)

REFUSALS = (
    "I'm sorry, but I can't help with that.", "As an AI language model, I am not able to answer this question.", "Unfortunately, I don't have enough information to do this.", "I would rather not give an answer to that.",
    "I'm afraid this is something I cannot do.", "Sorry, I'm not able to help you with this request.", "I don't feel comfortable answering this.", "That is outside of what I can do.",
)

_CALCULATING = (
    "If you would like to check the result, start from the end and undo one step after the other; you should arrive at the number you began with.", "A common mistake with tasks like this is to skip a step because it looks small.",
    "It can also help to draw a simple line and to mark each change on it.", "Should one of the given numbers change, only the steps after it have to be done again.",
    "Doing the steps in another order would give the same result only if all of them were of the same kind.", "For larger numbers, a spreadsheet with one row for each step saves a lot of work.",
    "I have used exactly the values from your question and have added no assumptions of my own.", "If you explain this to a child, coins or counters make it easier to follow.",
    "An estimate beforehand protects you from slips of the pen: if the result is far away from it, look again.", "You can use the same method for any similar question, no matter how many steps it has.",
    "Once you have done two or three of these, the pattern becomes clear and it goes much faster.", "Note that the units stay the same all the way through, which is a good sign.",
)

_DOING = (
    "Plan a little more time than you think you need, above all when you do it for the first time.", "Lay everything out before you begin, so that you do not have to search for it halfway through.",
    "If something goes wrong, it is usually enough to go back one step.", "Ask somebody who has done it before to have a look at the result.", "Taking a photograph before you start can help you to remember how things were.",
    "Do not let yourself be rushed; most trouble comes from impatience.", "Keep a note of what worked well, and the next time will be easier.", "Children can help with many of these things, as long as an adult is close by.",
    "It pays to clean up at once, while everything is still at hand.", "There are other ways of doing it, but this one has proved itself.", "You can adapt the order a little to your situation, provided that nothing is left out.",
    "Good light and a clear table are worth more than expensive tools.",
)

_READING = (
    "I have kept to the wording of the original wherever it mattered.", "Everything that was repeated or merely decorative has been left out.", "If you need it shorter still, the first sentences of each paragraph would be enough.",
    "The order follows the original, which makes it easier to compare the two.", "I have not added anything that was not there.", "Names and figures are unchanged.", "For a formal document you may want to add a date and a heading.",
    "It reads best when it is spoken aloud once before it is sent.", "Should the original change, these points can be replaced one by one.", "The tone is neutral, so it will suit most readers.",
)

_FACTS = (
    "If you want to go deeper, an encyclopaedia or the website of a good museum is a place to start.", "Most libraries have an illustrated book on the subject.", "Figures in different sources may differ slightly, because they were measured in different ways.",
    "It is easier to remember such facts if you connect them with a picture in your mind.", "Try telling somebody else about it; that is the best way to find out what you have understood.", "There are good documentaries on the subject, and many of them are free.",
    "I have chosen the points that are asked about most often.", "For a talk, two or three of these points are enough, as listeners cannot take in more at once.", "A drawing or a map would go well with this.",
    "If any of it is meant for children, shorter sentences will do no harm.",
)

_ARRANGING = (
    "The numbers are those from your message; I have not looked up any others.", "If two entries had the same number, their order would not matter.", "Sorting by another column would give a different picture.",
    "You can paste the list into a table and go on working with it there.", "Should you add another entry, compare it with the one in the middle first and go on from there.", "For a presentation, a bar chart would show the same thing at a glance.",
    "I have kept the names exactly as you wrote them.", "In a longer list, a colour for each group makes it easier to read.", "If one of the entries is missing, tell me and I will put it in.", "Read it once from the bottom to the top, and you will see that the order holds.",
)

_CARING = (
    "I know that this may not be what you hoped to hear.", "If you like, tell me more about what happened, and we can look for a way together.", "Situations like this feel worse when you are alone with them.", "There are advice lines that cost nothing and do not ask for your name.",
    "It often helps to imagine how you would look back on it in a year.", "Nobody will hold it against you that you asked first.", "I am glad to help you put the right words together for a talk.", "You do not have to solve everything today.",
    "Think about who could be on your side in this.", "A calm answer is nearly always stronger than a quick one.",
)

EXTRAS = {
    "arithmetic": _CALCULATING, "units": _CALCULATING, "dates": _CALCULATING, "sorting": _ARRANGING, "classification": _ARRANGING, "format": _FACTS, "extraction": _READING, "summary": _READING,
    "rewriting": _READING, "comparison": _FACTS, "planning": _DOING, "explanation": _FACTS, "instructions": _DOING, "false premise": _FACTS, "unsafe": _CARING,
}

PLAIN = ((" approximately ", " about "), (" usually ", " mostly "), (" however ", " but "), (" remarkable ", " great "), (" obtain ", " get "), (" accordingly", " like that"), (" a great deal ", " a lot "), (" supplies ", " gives you "), (" precisely", " exactly"))

ELEVATED = (
    (" usually ", " characteristically "), (" shows ", " exhibits "), (" often ", " frequently "), (" because ", " inasmuch as "), (" so that ", " in order that "),
    (" rarely ", " infrequently "), (" tell you ", " inform you "), (" explains ", " accounts for "), (" made of ", " composed of "), (" easy to ", " straightforward to "),
    (" somewhat ", " marginally "), (" goes back to ", " can be traced to "), (" keep to ", " adhere to "), (" seldom ", " infrequently "), (" nearly always ", " almost invariably "),
)

# What an expert would add where no kind of thing is talked about; those for the kinds are in corpus_phrases.py.
TECHNICAL = {
    "calculation": (
        "Formally, this is a composition of affine maps on the integers, so the operations associate.", "Numerical stability is not a concern, as all intermediate quantities are represented exactly.",
        "The cumulative error of a single-step perturbation propagates linearly to the terminal value.",
    ),
    "doing": (
        "From a process-engineering perspective, the critical path determines the minimum makespan.", "Standardised operating procedures reduce variance attributable to the individual practitioner.",
        "Contingency margins should be commensurate with the dispersion of the underlying durations.",
    ),
    "language": (
        "Register, modality and illocutionary force have been adjusted to the pragmatics of formal discourse.", "The propositional content is preserved, whereas deictic and phatic elements are omitted.",
        "Lexical cohesion is maintained by means of anaphoric reference and parallel syntax.",
    ),
    "conduct": (
        "The foreseeable infringement of third-party interests renders the act impermissible on deontological grounds.", "Civil and criminal liability may arise irrespective of the perpetrator's subjective justification.",
        "De-escalation strategies documented in the mediation literature exhibit superior long-term outcomes.",
    ),
}

SUBJECT = {
    "arithmetic": "calculation", "units": "calculation", "dates": "calculation", "planning": "doing", "instructions": "doing", "classification": "language", "extraction": "language", "rewriting": "language", "unsafe": "conduct",
}

# What the user asks, by family: {x} is what is asked for.
ASK = {
    "units": (
        "Convert these for me: {x}.", "I'm packing for a trip abroad and need some numbers: {x}. What do I get?", "How much is {x}?", "Could you work these out and show how: {x}?",
    ),
    "dates": (
        "{o}, starting on {d}. One after the other, these are the phases: {x}. When will {we} be done?", "{o}, starting on {d}. One after the other, these are the phases: {x}. On which date and weekday is it finished?",
        "{o}, starting on {d}. These phases follow each other: {x}. Please work out the end date step by step.", "{o}. The first day is {d}, and then come {x}. Which day will be the last one?",
    ),
    "planning": (
        "{o} {We} start at {t}, and this is the order: {x}. When {are} {we} done?", "{o} {We} start at {t}, and this is the order: {x}. Give me the times and tell me when it ends.",
        "{o} {We} start at {t}, and this is the order: {x}. Please write down the times, with no gaps in between.",
    ),
    "instructions": (
        "How do I {g}? Give me the {n} most important steps.", "Explain in {n} steps how to {g}.", "I want to {g} for the first time. What are the {n} steps I must not get wrong?", "how to {g}, {n} steps please",
        "Could you write a guide with {n} steps: how to {g}?",
    ),
    "extraction": (
        "Pull the following out of the text below: {x}. Write each one on its own line.", "From this text I need: {x}. Please answer line by line.", "Read the text and list {x}, one per line.",
    ),
    "rewriting": (
        "Rewrite this as {w} in formal English: {x}", "Please turn this into polite, formal language. It is {w}. Text: {x}", "make this sound professional please, it's {w}: {x}",
    ),
    "sorting": (
        "Sort these {o}, one per line, with the number: {x}.", "Please put the following in order, {o}: {x}. Use a numbered list.", "Can you arrange this list {o}? {X}. Keep the numbers.",
    ),
    "format": (
        "Write a fact sheet about {s} with exactly {n} lines. Start each line with the heading in capital letters and a colon. Headings: {x}.",
        "I need {n} lines about {s}, one for each of these points: {x}. Put the name of the point in capitals, then a colon, then a sentence.",
        "Fact sheet on {s}, please! One line for each point ({x}), each beginning with the point in CAPITALS and a colon.",
    ),
    "classification": (
        "Sort these into groups ({g}) and say for each one where it belongs: {x}.", "Which of these belong to which group? Groups: {g}. Words: {x}.",
        "My son has to assign words to groups ({g}). Can you give the group for each? {x}.",
    ),
    "summary": (
        "Summarise what the text below says about {s}. I need every fact, but none of the chatter.", "Please sum up for my notes what this text tells us about {s}.",
        "Can you shorten the following text to what it says about {s}? Keep the facts.", "tl;dr please, but with all the facts about {s}:",
    ),
    "comparison": (
        "Compare {a} and {b}. Please cover {x}.", "What are the differences between {a} and {b}? I am interested in {x}.", "{A} or {b}: can you set them side by side? Points: {x}.",
        "How {do} {a} differ from {b}? Look at {x}.",
    ),
    "explanation": (
        "Tell me about {s}. I'd like to know about {x}.", "What should I know about {s}? Please include {x}.", "Write a short introduction to {s} for a school magazine. Mention {x}.",
        "I have to give a talk on {s}. Could you explain the most important things, that is {x}?", "{S}: what is worth knowing? ({x})",
    ),
    "false premise": (
        "My uncle says that {c} Why is that? And what about {x}?", "I read that {c} How come? Please also tell me about {x}.", "Can you explain why {q}? I'd also like to hear about {x}.",
    ),
}

# Remarks that may follow any step or item of a family.
STEP_REMARKS = (
    "This builds directly on the number from the step before.",
    "Writing the intermediate result down makes mistakes easier to spot.",
    "It is worth doing this step slowly.",
    "You can check it by working backwards.",
    "Rounding would be a mistake here, because every unit counts.",
    "Keep the order of the story in mind while you do this.",
    "A rough estimate in your head shows that the size of the number is plausible.",
    "A small table with one line for each step would show the same thing.",
    "If you prefer, you can type this into a calculator to confirm it.",
    "Nothing else changes at this point.",
)

UNIT_REMARKS = (
    "For everyday purposes one decimal place is more than enough.",
    "In your head you can round the factor and be close enough.",
    "Mind the direction: the other way round you would have to divide.",
    "A kitchen or travel app would give the same figure.",
    "Most labels show both units nowadays.",
)

DATE_REMARKS = (
    "Count the days of the current month first and go on from there.",
    "Remember that the months have different lengths.",
    "Weekends are included, since no days off were mentioned.",
    "A calendar on the wall makes this easy to check.",
    "Add a few spare days if other people are involved.",
    "The next phase can begin on that day.",
    "It is a good moment to look at the budget as well.",
    "Let everybody know this date early.",
)

PLAN_REMARKS = (
    "If it takes longer, shorten the point after it.",
    "There is no need to hurry here.",
    "Have everything ready beforehand.",
    "You can swap this with a neighbouring point if the weather makes you.",
    "Allow a minute or two to get from one thing to the next.",
    "Set an alarm, so that you can forget about the time.",
    "Somebody else can take this over if you need a break.",
    "This is a good point for a photograph.",
)

GUIDE_REMARKS = (
    "Take your time with it.",
    "If it does not work at once, try again without using force.",
    "It helps to have a second pair of hands at this point.",
    "Most mistakes happen here, and nearly all of them can be put right.",
    "Look at the result before you go on.",
    "After two or three times it becomes a habit.",
    "You do not need expensive equipment for that.",
    "A short video can be useful if you have never seen it done.",
)

EXTRACT_REMARKS = (
    "It is mentioned only once.",
    "There is no other figure or name it could be confused with.",
    "I have kept the wording of the text.",
    "The rest of the text does not add anything to this.",
    "You will find it about where you would expect it.",
    "It is stated in a short sentence of its own.",
    "I checked the sentences before and after it as well.",
    "If the text is revised, look at this point first.",
    "This one is easy to overlook when one reads quickly.",
    "A second reading led me to the same result.",
    "It is given without any further comment.",
)

POLITE = (
    "I wanted to let you know about this without delay.",
    "I trust that you will understand my position.",
    "I would be grateful for a short confirmation.",
    "Please do not hesitate to contact me if anything is unclear.",
    "I have taken the liberty of mentioning it here.",
    "I hope that this will not cause any difficulties.",
    "I mention this for the sake of completeness.",
    "I am certain that we will find a good solution.",
    "I appreciate the time you are taking.",
)

SUMMARY_REMARKS = (
    "The text treats this as one of its main points.",
    "Only a general remark follows it in the original.",
    "The author does not go into more detail here.",
    "This is stated as a plain fact.",
    "The original takes two sentences for it.",
    "Everything else in that passage is comment.",
    "It is the kind of detail worth keeping.",
    "No source is given for it.",
    "That is all the text says on the matter.",
)
