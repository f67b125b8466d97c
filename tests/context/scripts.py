"""A corpus of many scripts: sentences where we can write them, else words of their letters."""

# ruff: noqa: E501, RUF001

from __future__ import annotations

import functools
import random
import unicodedata
from typing import Final

SENTENCES: Final = {
    "English": "The harbour is closed on Sundays, and whoever arrives then has to wait outside until the pilot comes in the morning with her small boat.",
    "German": "Der Hafen ist sonntags geschlossen, und wer dann ankommt, muss draußen warten, bis am Morgen die Lotsin mit ihrem kleinen Boot kommt.",
    "French": "Le port est fermé le dimanche, et celui qui arrive à ce moment-là doit attendre dehors jusqu'à ce que la pilote vienne le matin avec son petit bateau.",
    "Spanish": "El puerto está cerrado los domingos, y quien llega entonces tiene que esperar fuera hasta que la piloto venga por la mañana con su pequeño barco.",
    "Portuguese": "O porto está fechado aos domingos, e quem chega nessa altura tem de esperar lá fora até que a piloto venha de manhã com o seu pequeno barco.",
    "Italian": "Il porto è chiuso la domenica, e chi arriva allora deve aspettare fuori finché la pilota non viene al mattino con la sua piccola barca.",
    "Polish": "Port jest zamknięty w niedziele, a kto wtedy przypłynie, musi czekać na zewnątrz, aż rano przyjdzie pilotka ze swoją małą łodzią.",
    "Czech": "Přístav je v neděli zavřený, a kdo tehdy připluje, musí čekat venku, dokud ráno nepřijde lodivodka se svou malou lodí.",
    "Hungarian": "A kikötő vasárnap zárva van, és aki akkor érkezik, annak kint kell várnia, amíg reggel meg nem jön a révkalauz a kis csónakjával.",
    "Turkish": "Liman pazar günleri kapalıdır ve o zaman gelen, kılavuz sabah küçük teknesiyle gelene kadar dışarıda beklemek zorundadır.",
    "Vietnamese": "Bến cảng đóng cửa vào chủ nhật, và ai đến lúc đó phải đợi ở ngoài cho đến khi người hoa tiêu đến vào buổi sáng với chiếc thuyền nhỏ.",
    "Finnish": "Satama on sunnuntaisin suljettu, ja joka silloin saapuu, joutuu odottamaan ulkona, kunnes luotsi tulee aamulla pienellä veneellään.",
    "Swahili": "Bandari hufungwa Jumapili, na yeyote anayefika wakati huo lazima asubiri nje mpaka rubani aje asubuhi na mashua yake ndogo.",
    "Russian": "Порт закрыт по воскресеньям, и тот, кто прибывает тогда, должен ждать снаружи, пока утром не придёт лоцман на своей маленькой лодке.",
    "Ukrainian": "Порт зачинений у неділю, і той, хто прибуває тоді, мусить чекати ззовні, доки вранці не прийде лоцман на своєму маленькому човні.",
    "Greek": "Το λιμάνι είναι κλειστό τις Κυριακές, και όποιος φτάνει τότε πρέπει να περιμένει έξω μέχρι να έρθει το πρωί ο πιλότος με τη μικρή του βάρκα.",
    "Hebrew": "הנמל סגור בימי ראשון, ומי שמגיע אז צריך לחכות בחוץ עד שהנווט יבוא בבוקר בסירה הקטנה שלו.",
    "Arabic": "الميناء مغلق أيام الأحد، ومن يصل حينها عليه أن ينتظر في الخارج حتى يأتي المرشد في الصباح بقاربه الصغير.",
    "Persian": "بندر روزهای یکشنبه بسته است و هر کس آن وقت برسد باید بیرون منتظر بماند تا راهنما صبح با قایق کوچکش بیاید.",
    "Hindi": "बंदरगाह रविवार को बंद रहता है, और जो तब आता है उसे बाहर इंतज़ार करना पड़ता है जब तक कि सुबह पायलट अपनी छोटी नाव लेकर न आए।",
    "Bengali": "বন্দর রবিবার বন্ধ থাকে, এবং যে তখন আসে তাকে বাইরে অপেক্ষা করতে হয় যতক্ষণ না সকালে পাইলট তার ছোট নৌকা নিয়ে আসে।",
    "Tamil": "துறைமுகம் ஞாயிற்றுக்கிழமைகளில் மூடப்பட்டிருக்கும், அப்போது வருபவர் காலையில் வழிகாட்டி வரும் வரை வெளியே காத்திருக்க வேண்டும்.",
    "Thai": "ท่าเรือปิดในวันอาทิตย์ และผู้ที่มาถึงในเวลานั้นต้องรออยู่ข้างนอกจนกว่าคนนำร่องจะมาในตอนเช้าด้วยเรือลำเล็ก",
    "Chinese": "港口星期天关闭，谁在那时到达就得在外面等，直到早上领航员划着她的小船过来。",
    "Taiwanese": "港口星期天關閉，誰在那時到達就得在外面等，直到早上領航員划著她的小船過來。",
    "Japanese": "港は日曜日に閉まっていて、その時に着いた人は、朝に水先案内人が小さな船で来るまで外で待たなければなりません。",
    "Korean": "항구는 일요일에 문을 닫으며, 그때 도착하는 사람은 아침에 도선사가 작은 배를 타고 올 때까지 밖에서 기다려야 합니다.",
    "Georgian": "ნავსადგური კვირაობით დაკეტილია და ვინც მაშინ ჩამოდის, გარეთ უნდა დაელოდოს, სანამ დილით ლოცმანი თავისი პატარა ნავით არ მოვა.",
    "Armenian": "Նավահանգիստը կիրակի օրերին փակ է, և ով այդ ժամանակ է գալիս, պետք է դրսում սպասի, մինչև առավոտյան գա լոցմանն իր փոքրիկ նավակով։",
    "Amharic": "ወደቡ እሁድ ቀን ዝግ ነው፣ በዚያን ጊዜ የሚመጣ ሰው መሪው ጠዋት በትንሽ ጀልባው እስኪመጣ ድረስ ውጭ መጠበቅ አለበት።",
    "Gujarati": "બંદર રવિવારે બંધ રહે છે, અને જે ત્યારે આવે છે તેણે સવારે પાયલોટ તેની નાની હોડી લઈને આવે ત્યાં સુધી બહાર રાહ જોવી પડે છે.",
    "Punjabi": "ਬੰਦਰਗਾਹ ਐਤਵਾਰ ਨੂੰ ਬੰਦ ਰਹਿੰਦੀ ਹੈ, ਅਤੇ ਜੋ ਉਦੋਂ ਆਉਂਦਾ ਹੈ ਉਸਨੂੰ ਸਵੇਰੇ ਪਾਇਲਟ ਦੇ ਆਪਣੀ ਛੋਟੀ ਕਿਸ਼ਤੀ ਨਾਲ ਆਉਣ ਤੱਕ ਬਾਹਰ ਉਡੀਕ ਕਰਨੀ ਪੈਂਦੀ ਹੈ।",
    "Telugu": "ఓడరేవు ఆదివారం మూసివేయబడుతుంది, అప్పుడు వచ్చే వారు ఉదయం పైలట్ తన చిన్న పడవతో వచ్చే వరకు బయట వేచి ఉండాలి.",
    "Kannada": "ಬಂದರು ಭಾನುವಾರ ಮುಚ್ಚಿರುತ್ತದೆ, ಆಗ ಬರುವವರು ಬೆಳಿಗ್ಗೆ ಪೈಲಟ್ ತನ್ನ ಸಣ್ಣ ದೋಣಿಯೊಂದಿಗೆ ಬರುವವರೆಗೆ ಹೊರಗೆ ಕಾಯಬೇಕು.",
    "Malayalam": "തുറമുഖം ഞായറാഴ്ച അടച്ചിരിക്കും, അപ്പോൾ വരുന്നവർ രാവിലെ പൈലറ്റ് തന്റെ ചെറിയ വള്ളവുമായി വരുന്നതുവരെ പുറത്ത് കാത്തിരിക്കണം.",
    "Sinhala": "වරාය ඉරිදා දිනවල වසා ඇත, එවිට පැමිණෙන අය උදෑසන නියමුවා ඔහුගේ කුඩා බෝට්ටුවෙන් එන තුරු පිටත රැඳී සිටිය යුතුය.",
    "Burmese": "ဆိပ်ကမ်းသည် တနင်္ဂနွေနေ့များတွင် ပိတ်ထားပြီး ထိုအချိန်တွင် ရောက်လာသူသည် မနက်တွင် လမ်းပြ လှေငယ်ဖြင့် ရောက်လာသည်အထိ အပြင်တွင် စောင့်ရမည်။",
    "Khmer": "កំពង់ផែបិទនៅថ្ងៃអាទិត្យ ហើយអ្នកដែលមកដល់នៅពេលនោះត្រូវរង់ចាំនៅខាងក្រៅរហូតដល់អ្នកនាំផ្លូវមកដល់នៅពេលព្រឹកជាមួយទូកតូចរបស់គាត់។",
    "Lao": "ທ່າເຮືອປິດໃນວັນອາທິດ ແລະຜູ້ທີ່ມາຮອດໃນເວລານັ້ນຕ້ອງລໍຖ້າຢູ່ຂ້າງນອກຈົນກວ່າຜູ້ນຳທາງຈະມາໃນຕອນເຊົ້າດ້ວຍເຮືອນ້ອຍ",
}  # fmt: skip
LETTERS: Final = {
    "Odia": (0x0B05, 0x0B39),
        "Tibetan": (0x0F40, 0x0F6C),
    "Mongolian": (0x1820, 0x1877),
    "Cherokee": (0x13A0, 0x13F4), "Inuktitut": (0x1401, 0x1676), "Ogham": (0x1681, 0x169A),
    "Runes": (0x16A0, 0x16EA), "Syriac": (0x0710, 0x072F), "Thaana": (0x0780, 0x07A5),
    "NKo": (0x07CA, 0x07E7), "Tifinagh": (0x2D30, 0x2D67), "Coptic": (0x2C80, 0x2CE3),
    "Glagolitic": (0x2C00, 0x2C5E), "Ol Chiki": (0x1C5A, 0x1C77), "Vai": (0xA500, 0xA60B),
    "Yi": (0xA000, 0xA48C), "Javanese": (0xA984, 0xA9B2), "Bopomofo": (0x3105, 0x312F),
    "Gothic": (0x10330, 0x1034A), "Cuneiform": (0x12000, 0x12399),
    "Hieroglyphs": (0x13000, 0x1342E), "Mathematical letters": (0x1D400, 0x1D6A5),
    "Rare Han": (0x3400, 0x4DBF), "Rarer Han": (0x20000, 0x2A6DF), "Phonetic": (0x0250, 0x02AF),
    "Half-width kana": (0xFF66, 0xFF9D), "Full-width Latin": (0xFF21, 0xFF5A),
}  # fmt: skip
"""Scripts of which we write no sentences: the first and the last of their letters."""
SYMBOLS: Final = {
    "Braille": (0x2801, 0x28FF), "Box drawing": (0x2500, 0x257F), "Blocks": (0x2580, 0x259F),
    "Arrows": (0x2190, 0x21FF), "Mathematics": (0x2200, 0x22FF), "Shapes": (0x25A0, 0x25FF),
    "Dingbats": (0x2700, 0x27BF), "Technical": (0x2300, 0x23FA), "Currency": (0x20A0, 0x20BF),
    "Enclosed": (0x2460, 0x24FF), "Emoji": (0x1F600, 0x1F64F), "Pictographs": (0x1F300, 0x1F5FF),
    "Chess": (0x1FA00, 0x1FA6D), "Music": (0x1D100, 0x1D126), "Private": (0xE000, 0xE0FF),
}  # fmt: skip


@functools.cache
def corpus() -> dict[str, str]:
    """Return a text of each script and of each sort of symbols, always the same."""
    found = dict(SENTENCES)
    for name, (first, last) in {**LETTERS, **SYMBOLS}.items():
        found[name] = _words(name, first, last)
    return found


def _words(name: str, first: int, last: int) -> str:
    dice = random.Random(name)
    known = [chr(code) for code in range(first, last + 1) if _is_known(chr(code))]
    words = ["".join(dice.choices(known, k=dice.randint(2, 7))) for _ in range(60)]
    return " ".join(words)


def _is_known(character: str) -> bool:
    return unicodedata.category(character) != "Cn"
