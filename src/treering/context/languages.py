"""Detects the language of a text by its most common words, to correct the token estimate.

Tokenizers know some languages better than others in the same script: a word of English is one
token, one of Zulu four. ``language_surcharge`` returns the cost of each character on top of the
script's average. The numbers were fitted to o200k_base on messages of programs in 128 languages; an
unknown language is taken for an expensive one of its script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE_CHARACTERS: Final = 200
"""Characters at the beginning of a text that are examined."""
WORDS_MIN: Final = 6
"""With fewer words the language is unknown."""
COMMON_SHARE: Final = 5
"""One in this many words must be common for a language to be recognised."""
ACCENTS_MAX: Final = 0.15
"""Accented text costs less besides its accents, by their share, up to this."""
UNKNOWN_SURCHARGE: Final[dict[int, float]] = {
    0x00: 0.145,
    0x01: 0.145,
    0x04: 0.045,
    0x06: 0.1,
    0x09: 0.08,
}
"""The surcharge per character in unknown languages, by the high byte of most letters."""

_ARABIC: Final = 0x06
_ARABIC_SURCHARGE: Final = -0.026
"""Of the languages in its script only Arabic has the letter teh marbuta."""

_LANGUAGES: Final[tuple[tuple[float, str], ...]] = (
    # English, with the most common words of programs and of texts about them
    (0.0, """
        the of to and a in is for not be or with on that it this are as from by at was you have has
        if can no only will an must which when but all they we he she his her its their our your my
        me us i do does did done there then than so what who how why where while before after about
        into out up over one two more most some any each every other such these those been being
        would could should may might use used using error file files name value data code test tests
        run please cannot because just like get set make made need needs new same also never again
        whether show number let here now back first last next time still too very def return self
        import class function const true false none null else elif
     """),
    # Spanish
    (0.0, """
        de la el que en y los las se del un una por con no para su al es lo como más pero sus le ya
        o este porque esta entre cuando muy sin sobre también hasta hay donde quien desde todo nos
        todos ni puede debe está ser si
     """),
    # French
    (-0.012, """
        de la le les des et est une un dans qui que pas pour sur ne au ce il plus par avec sont aux
        mais ou cette être fait elle nous vous leur deux comme ses tout même aussi son sa avant peut
        doit à du si je tu avait ont été on en se
     """),
    # Portuguese
    (-0.014, """
        de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele
        das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela era
        depois sem mesmo você pode antes
     """),
    # German
    (0.017, """
        der die das und ist nicht den von mit ein eine zu auf für im dem des wird werden kann sie es
        auch an als oder wie nur noch aber wenn bei aus nach wir ich du einer einen sind hat war
        sich vor bis zum zur über durch kein keine bitte dass schon mehr waren in am man
     """),
    # Italian
    (0.05, """
        di che il è per un non una con del da sono le della i si dei nel più come alla anche ma gli
        ha delle questo prima su lo essere stato al dal solo la a in e o quando può tra se
     """),
    # Dutch
    (0.041, """
        het een van de en is dat te zijn voor niet met op er aan ook als maar om bij uit door naar
        dan nog wordt worden kan deze die wel moet ik je hij wij waren heeft over tot geen of in
     """),
    # Swedish
    (0.035, """
        och att det som en på är av för med den till inte ett om har de jag vi du kan men så eller
        från när vid var bara över efter innan skulle ska detta hade in ut alla i
     """),
    # Danish
    (0.059, """
        og at det er en til på som af med for ikke den der et de har var om men kan fra ved vil skal
        eller kun jeg du vi hvis efter når før også hvor denne han hun i
     """),
    # Norwegian
    (0.07, """
        og i er det som på en til av for at med ikke den har de et om var men kan fra vi jeg du så
        eller bare når etter før også hvor denne å ikkje ein eit vert skal
     """),
    # Icelandic
    (0.069, "að og í er á sem til ekki um við með en var fyrir það eru hann þú þetta frá eða áður"),
    # Esperanto
    (0.117, "la kaj de estas en ne por al ĉi kun aŭ sed nur vi mi li el pri kiel tiu estis dum ĝi"),
    # Afrikaans
    (0.081, "die van nie en het is dit word vir om te wat hy sy maar ook moet in of wanneer op"),
    # Romanian
    (0.018, """
        și în să nu este care pentru din cu la mai sau dacă pe a fost sunt ce această acest după dar
        ca au lui fi unei unui prin fără te trebuie numai erau de un o se
     """),
    # Catalan
    (0.045, """
        de la el i els les que en un una per amb no és a al del dels es si ha més aquest aquesta
        només abans però molt està o com
     """),
    # Galician
    (0.022, "de a o que e do da non se un unha os ao en as dos das pode é polo pola máis foi como"),
    # Polish
    (0.056, """
        i w nie na się z do to jest że o jak ale po co tak za od przez być już czy tylko dla są był
        było jeszcze oraz zanim aby lub może kiedy który która a
     """),
    # Czech
    (0.009, """
        je na se v a při nebo není být jako do ve pro že které který jsem jsou byl bylo ale tak jen
        ještě než aby také podle která jeho jak když už k s z o po od za by si to
     """),
    # Slovak
    (0.038, """
        je sa v na nie pre a ako má s pri alebo či ak do byť tento sú ktorý o že ale aj bolo kým iba
        ešte som podľa to z už ktorá
     """),
    # Croatian, Serbian
    (0.092, """
        i je u se na da za su od ne koji nije ali kao što bi iz ili sam samo prije pre još ako može
        ga kada li biti s a to
     """),
    # Slovenian
    (0.098, "je in se na za v ne ni da so ki pa pri bil bila tudi če lahko kot z s ali bo od"),
    # Hungarian
    (0.023, """
        a az és nem hogy egy is meg de csak ha mint van volt már vagy ez azt lehet nincs kell majd
        minden még én ő el ki fel mert aki ami után előtt kérlek akkor
     """),
    # Finnish
    (0.079, """
        ja on ei että se oli hän mutta kun niin vain myös tai joka ovat ole voi jos kuin ennen sen
        tämä olla minä sitä mitä uudelleen
     """),
    # Estonian
    (0.092, "ja on ei et see ka oli kui aga või ning siis mis oma pole enne ainult saa kas ole"),
    # Latvian
    (0.055, "un ir uz ar ka no kas par tiek nav vai kā lai bet tas bija pirms arī to ja pēc tikai"),
    # Lithuanian
    (0.096, "ir kad yra su į tai iš bet buvo kaip ar tik jau už dar po jo prieš arba nėra turi"),
    # Albanian
    (0.066, "të dhe në një për që me është nuk nga së si kjo ka por nëse mund më i e"),
    # Irish
    (0.07, "an agus na ar tá ag le ní go sé bhí seo nach a i is"),
    # Turkish
    (-0.046, """
        bir ve için bu ile çok daha gibi olarak ama kadar değil ne mi sonra önce lütfen yalnızca
        veya ya da her şey o ben sen biz olan var yok tüm içinde yeniden göre ise ancak tarafından
     """),
    # Azerbaijani
    (-0.22, "üçün və bu ilə olaraq bir də üzrə daha çox kimi sonra əvvəl lakin əlavə ya olan hər"),
    # Vietnamese
    (-0.03, """
        không có của và các một cho được là trong những với người để khi này đã đến từ thể tôi bạn
        phải trước nhưng chỉ vào ra lại như cũng nếu thì còn rất về số
     """),
    # Indonesian
    (0.063, """
        yang dan di dengan untuk tidak dari dalam ini itu pada akan ke adalah juga atau ada hanya
        sudah oleh saya anda kami dapat bisa sebelum tetapi karena lebih kembali
     """),
    # Malay
    (0.086, "tidak untuk yang dalam pada dan bagi ada ke ini atau boleh jika telah sama fail bila"),
    # Tagalog
    (0.08, "ng na ang sa mga ay hindi at ito para may bago ngunit kung siya ako walang"),
    # Russian
    (-0.075, """
        и в не на что с он я как это по но она из у за от так о же для вы бы только его было к все
        был меня еще ещё мне или при чтобы когда до если нет уже мы ли может быть были тот этого
        прежде пока со
     """),
    # Ukrainian
    (0.01, """
        не на що до як та і для є або від але це його за про бути був з й ви ще якщо він вона було
        лише перш ніж чи має може того у в
     """),
    # Bulgarian
    (0.03, "на за да се не от е и с са по че това като но при към или преди си беше само в"),
    # Macedonian
    (0.015, "на за да се не од е и со во ги го ќе или дали ја како но"),
    # Serbian
    (0.042, "је у да не се за на и са су од или као који није ће само пре али што из"),
    # Kazakh, Kyrgyz
    (-0.01, """
        және бұл үшін мен бір емес бар да де деп ол бірақ керек еді жоқ қайта тек
        жана менен үчүн бул бир эмес болгон жок
     """),
    # Arabic
    (-0.026, """
        في من على أن إلى لا ما هذا هذه التي الذي مع عن كان أو لم قد كل بعد غير قبل ثم هو هي لكن إذا
        عند بين فقط منها كانت و يجب حتى
     """),
    # Persian
    (-0.025, """
        از به در را که این با است برای آن یک تا بر هم ما کرد شد اما یا خود می شده بود هر پیش نیست و
        فقط دو باید دوباره
     """),
    # Hindi
    (0.014, """
        के है में की और को से का एक पर यह कि नहीं भी लिए कर तो था हैं ने जो या इस थे करने गया पहले
        होता लेकिन केवल जब तक अगर
     """),
    # Nepali
    (0.025, "छ र को मा लागि यो हो थियो तर पनि गर्न भएको छन् छैन मात्र एक"),
    # Bengali
    (0.02, "এই ও এবং না করে হয় থেকে জন্য একটি এর কিন্তু তার যে সে আর কি হয়েছে আগে আবার নয়"),
)  # fmt: skip
"""The surcharge per character, and the most common words of the language."""


def _word_languages() -> dict[str, bytes]:
    """Return the languages of each word; a word of only one language counts twice."""
    languages: dict[str, bytes] = {}
    for index, (_, words) in enumerate(_LANGUAGES):
        for word in set(words.split()):
            languages[word] = languages.get(word, b"") + bytes([index])
    return {
        word: languages_of_word * 2 if len(languages_of_word) == 1 else languages_of_word
        for word, languages_of_word in languages.items()
    }


_WORD_LANGUAGES: Final = _word_languages()


def language_surcharge(text: str, script: int) -> float:
    """Return the surcharge per character of ``text``; 0 if it is not prose.

    ``script`` is the high byte of most of its letters in UTF-16.
    """
    if script not in UNKNOWN_SURCHARGE:
        return 0.0
    sample = text[:SAMPLE_CHARACTERS]
    words = sample.lower().split()
    if len(words) < WORDS_MIN:
        return 0.0
    matches = b"".join(filter(None, map(_WORD_LANGUAGES.get, words)))
    if matches:
        most, cost = max((matches.count(index), _LANGUAGES[index][0]) for index in set(matches))
        if most * COMMON_SHARE >= len(words):
            return cost
    return _unknown_surcharge(sample, words, script)


def _unknown_surcharge(sample: str, words: Sequence[str], script: int) -> float:
    """Return the surcharge per character of an unrecognised language."""
    if script == _ARABIC:
        return _ARABIC_SURCHARGE if "\u0629" in sample else UNKNOWN_SURCHARGE[script]
    if script > 1:
        return UNKNOWN_SURCHARGE[script]
    if sum(map(str.isalpha, words)) * 5 < len(words) * 3:
        return 0.0  # Code, names, numbers.
    # Text with many accents pays for them already.
    accents = len(sample.encode("utf-8", "surrogatepass")) / len(sample) - 1
    return UNKNOWN_SURCHARGE[script] - min(accents, ACCENTS_MAX)
